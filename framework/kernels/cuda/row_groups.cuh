// Sums over the threads of a group (ThreadGroups), for kernels whose groups hold rows in registers.
#pragma once

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// Returns the sum over the threads of a group, on each of its threads. All threads of the block must call this
/// function. `scratch` is as in block_sum().
template <class A>
__device__ __forceinline__ A group_sum(A x, int lanes, A* scratch) {
  if (lanes > warp_size) return block_sum(x, scratch);
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace hexad::kernels::cuda
