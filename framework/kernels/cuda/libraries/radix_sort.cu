#include "framework/kernels/cuda/libraries/radix_sort.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) number_kernel(int32_t* out, int count) {
  const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (i < count) out[i] = i;
}

uint32_t* unsigned_pointer(const Tensor& t) { return reinterpret_cast<uint32_t*>(pointer<int32_t>(t)); }

}  // namespace

SortedIds sort_ids(std::string_view op, Stream& stream, const Tensor& ids, int64_t limit) {
  const auto count = static_cast<int>(ids.numel());
  const auto buffer = [&] { return Tensor::empty({int64_t{count}}, Dtype::i32, ids.device()); };
  const SortedIds sorted{buffer(), buffer()};
  const Tensor numbers = buffer();
  launch(op, number_kernel, blocks_of(count, threads), threads, stream, pointer<int32_t>(numbers), count);
  // Sorts only by the bits of `limit`. In these bits, every id below `limit` is less than `limit` and -1 (all ones).
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(limit))));
  size_t bytes = 0;
  const auto queue = cuda_stream(stream).handle();
  const auto sort = [&](void* scratch) {
    check(cub::DeviceRadixSort::SortPairs(scratch, bytes, unsigned_pointer(ids), unsigned_pointer(sorted.ids),
                                          pointer<int32_t>(numbers), pointer<int32_t>(sorted.places), count, 0, bits,
                                          queue.get()),
          op);
  };
  sort(nullptr);  // only computes `bytes`
  const Tensor scratch = Tensor::empty({static_cast<int64_t>(bytes)}, Dtype::u8, ids.device());
  sort(pointer<uint8_t>(scratch));
  return sorted;
}

}  // namespace hexad::kernels::cuda
