// Finding the value that ruins a training run before it does.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/tensor/tensor.h"

namespace hexad::io {

using tensor::Tensor;
/// Row-major index of the first NaN or infinity; nothing for integers and for clean tensors.
std::optional<int64_t> first_non_finite(const Tensor& tensor);

/// Throws Error(numeric) naming `where`, `name`, the value and its index unless all elements are finite.
void require_finite(const Tensor& tensor, std::string_view where, std::string_view name);

}  // namespace hexad::io
