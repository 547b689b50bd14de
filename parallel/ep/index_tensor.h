// Conversion of a list of indices to a tensor on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::ep {

/// Returns `values` as a tensor [n] i64 on device `on`.
inline tensor::Tensor index_tensor(const std::vector<int64_t>& values, device::Device on) {
  return tensor::Tensor::from<int64_t>(values, {static_cast<int64_t>(values.size())}, on,
                                       device::Category::communication);
}

}  // namespace hexad::ep
