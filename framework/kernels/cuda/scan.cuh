// Prefix sums over the threads of a block.
#pragma once

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

inline constexpr unsigned whole_warp = 0xffffffffu;

/// The sum over all earlier threads, and the sum over all threads.
struct Scan {
  unsigned before, all;
};

/// Computes the prefix sums of x over a block of `Threads` threads. All threads must call this function. The sum over
/// all threads must be below 2^32. The next call may follow without a barrier.
template <int Threads>
__device__ Scan block_scan(unsigned x) {
  constexpr int warps = Threads / warp_size;
  __shared__ unsigned sums[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const auto up_to_lane = [&](unsigned value) {
#pragma unroll
    for (int step = 1; step < warp_size; step *= 2) {
      const unsigned other = __shfl_up_sync(whole_warp, value, static_cast<unsigned>(step));
      if (lane >= step) value += other;
    }
    return value;
  };
  const unsigned in_warp = up_to_lane(x);
  if (lane == warp_size - 1) sums[warp] = in_warp;
  __syncthreads();
  const unsigned up_to_warp = up_to_lane(lane < warps ? sums[lane] : 0);
  const unsigned all = __shfl_sync(whole_warp, up_to_warp, warp_size - 1);
  const unsigned warps_before = __shfl_sync(whole_warp, up_to_warp, max(warp - 1, 0));
  __syncthreads();
  return {(warp > 0 ? warps_before : 0) + in_warp - x, all};
}

}  // namespace hexad::kernels::cuda
