// Detection of NaN and infinity in tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/tensor/tensor.h"

namespace hexad::io {

using tensor::Tensor;
/// Returns the row-major index of the first element that is NaN or infinite. Returns nullopt if all elements are
/// finite, or if the dtype is an integer type.
std::optional<int64_t> first_non_finite(const Tensor& tensor);

/// Throws Error(numeric) if an element is NaN or infinite. The message contains `where`, `name`, the value and the
/// row-major index of the value.
void require_finite(const Tensor& tensor, std::string_view where, std::string_view name);

}  // namespace hexad::io
