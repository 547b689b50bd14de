// Sums over rows kept in registers, of which the threads of a block have a share each (RowGroups).
#pragma once

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// Over the threads of a group, the same on each. All threads of the block call it. `scratch` as in block_sum.
template <class A>
__device__ __forceinline__ A group_sum(A x, int lanes, A* scratch) {
  if (lanes > warp_size) return block_sum(x, scratch);
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace hexad::kernels::cuda
