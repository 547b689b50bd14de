// Checks of shapes, used by the kernels of several backends.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace hexad::kernels {

/// Throws std::logic_error unless `t` has shape `shape`.
inline void require_shape(std::string_view op, std::string_view name, const tensor::Tensor& t,
                          const base::Shape& shape) {
  base::require(t.shape() == shape, "[", op, "] ", name, " has shape ", t.shape(), "; expected ", shape);
}

/// Throws std::logic_error unless `t` is contiguous and has `count` elements.
inline void require_flat(std::string_view op, std::string_view name, const tensor::Tensor& t, int64_t count) {
  base::require(t.numel() == count && t.contiguous(), "[", op, "] ", name, " has shape ", t.shape(), " and strides ",
                t.strides(), "; expected ", count, " contiguous elements");
}

}  // namespace hexad::kernels
