// Sorts by keys on the device.
#pragma once

#include <cstdint>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels::cuda {

using device::Stream;
using tensor::Tensor;

/// Sorted ids, and the original place of each.
struct SortedIds {
  Tensor ids, places;  // [n] i32
};

/// Sorts stably: first the ids below `limit`, then all others. -1 and `limit` itself come last. `ids`: contiguous i32,
/// fewer than 2^31.
SortedIds sort_ids(std::string_view op, Stream& stream, const Tensor& ids, int64_t limit);

}  // namespace hexad::kernels::cuda
