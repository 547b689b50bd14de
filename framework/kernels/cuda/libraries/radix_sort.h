// Sorting by integer keys on the device.
#pragma once

#include <cstdint>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels::cuda {

using device::Stream;
using tensor::Tensor;

/// Sorted ids, and the position of each id before sorting (`places`).
struct SortedIds {
  Tensor ids, places;  // [n] i32
};

/// Sorts ids stably. The ids below `limit` come first, in ascending order. The ids `limit` and -1 come last and may be
/// mixed. `ids` must be contiguous i32 with fewer than 2^31 elements.
SortedIds sort_ids(std::string_view op, Stream& stream, const Tensor& ids, int64_t limit);

}  // namespace hexad::kernels::cuda
