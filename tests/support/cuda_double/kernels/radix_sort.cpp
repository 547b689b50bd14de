// sort_ids() for the CUDA double. A card uses CUB, which is device code.
#include "framework/kernels/cuda/libraries/radix_sort.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/tensor/device_access.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;

SortedIds sort_ids(std::string_view, Stream& stream, const Tensor& ids, int64_t limit) {
  const Shape shape{ids.numel()};
  const SortedIds sorted{Tensor::empty(shape, Dtype::i32, ids.device()),
                         Tensor::empty(shape, Dtype::i32, ids.device())};
  const unsigned bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(limit))));
  const auto queue = device::cuda::cuda_stream(stream).handle();
  cuda_double::enqueue(queue.get(), [from = device_data<int32_t>(ids), to = device_data<int32_t>(sorted.ids),
                                     places = device_data<int32_t>(sorted.places), count = ids.numel(),
                                     mask = (uint64_t{1} << bits) - 1] {
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return static_cast<uint32_t>(from[i]) & mask; });
    for (size_t i = 0; i < order.size(); ++i) {
      places[i] = order[i];
      to[i] = from[order[i]];
    }
  });
  return sorted;
}

}  // namespace hexad::kernels::cuda
