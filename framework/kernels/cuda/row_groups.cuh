// Rows kept in registers: how the threads of a block share them.
#pragma once

#include <bit>

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// Each row has a group of `lanes` threads, which take its vectors in turn: a part of a warp, one warp, or the block.
struct RowGroups {
  int lanes;
  int threads;  // of a block
  int rows;     // of a block: its groups

  /// For rows of `vectors` vectors of which a thread keeps `held`; `threads` where a group is no wider than a warp.
  static RowGroups of(int64_t vectors, int held, int threads) {
    const auto wanted = static_cast<unsigned>(std::max<int64_t>(1, (vectors + held - 1) / held));
    if (wanted <= warp_size) {
      const int lanes = static_cast<int>(std::bit_ceil(wanted));
      return {lanes, threads, threads / lanes};
    }
    const int lanes = static_cast<int>((wanted + warp_size - 1) / warp_size * warp_size);
    return {lanes, lanes, 1};
  }
};

/// Over the threads of a group, the same on each. All threads of the block call it. `scratch` as in block_sum.
template <class A>
__device__ __forceinline__ A group_sum(A x, int lanes, A* scratch) {
  if (lanes > warp_size) return block_sum(x, scratch);
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace hexad::kernels::cuda
