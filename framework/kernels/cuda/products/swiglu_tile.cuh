// Epilogue of the first product of SwiGLU experts: stores a tile of gate and up, and their activation.
#pragma once

#include "framework/kernels/cuda/products/quads.cuh"
#include "framework/kernels/cuda/products/wgmma_sums.h"
#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// A tile of a group's rows: 128 rows, with 128 columns of gate and the same columns of up. The pointers point to the
/// tile's first row and column. Pointers and strides are multiples of 16 bytes.
struct SwigluTile {
  static constexpr int rows = 128, columns = 128, threads = 256;

  __nv_bfloat16 *gate, *up, *activated;
  int64_t stride, activated_stride;  // elements from row to row of gate and up, and of `activated`
  const float* weights;              // weights of the tile's rows; null: all weights are 1
  int64_t existing;                  // number of the group's rows from the tile's first row on; may exceed `rows`
};

/// Stores the tile. sums(i) is the thread's sum at place_of_sum(thread, i, 256). The product has 128 columns of gate,
/// followed by 128 columns of up. The threads of a quad exchange words so that each thread stores 16 adjacent bytes.
/// The 256 threads of two warp groups must call this function, each with its index `thread`.
template <class Sums>
__device__ __forceinline__ void store_swiglu_tile(const SwigluTile& tile, const Sums& sums, int thread) {
  using D = __nv_bfloat16;
  constexpr int blocks = SwigluTile::columns / 8;  // blocks of eight columns of gate, and as many of up
  const int quad_lane = thread % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = place_of_sum(thread, half * 2, 2 * SwigluTile::columns).row;
    const bool exists = row < tile.existing;
    const float weight = exists && tile.weights ? tile.weights[row] : 1.0f;
#pragma unroll
    for (int first = 0; first < blocks; first += 4) {
      uint32_t gate[4], up[4], activated[4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        Vector<D, 2> g, u, y;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = (first + b) * 4 + half * 2 + e;
          g.at[e] = to<D>(sums(at));
          u.at[e] = to<D>(sums(blocks * 4 + at));
          // Uses the rounded values, like the kernel swiglu.forward.
          const float x = to<float>(g.at[e]);
          y.at[e] = to<D>(x * sigmoid<D>(x) * to<float>(u.at[e]) * weight);
        }
        gate[b] = std::bit_cast<uint32_t>(g);
        up[b] = std::bit_cast<uint32_t>(u);
        activated[b] = std::bit_cast<uint32_t>(y);
      }
      transpose_in_quad(gate, quad_lane);
      transpose_in_quad(up, quad_lane);
      transpose_in_quad(activated, quad_lane);
      if (!exists) continue;
      const int64_t column = (first + quad_lane) * 8, at = row * tile.stride + column;
      *reinterpret_cast<uint4*>(tile.gate + at) = {gate[0], gate[1], gate[2], gate[3]};
      *reinterpret_cast<uint4*>(tile.up + at) = {up[0], up[1], up[2], up[3]};
      *reinterpret_cast<uint4*>(tile.activated + row * tile.activated_stride + column) = {activated[0], activated[1],
                                                                                          activated[2], activated[3]};
    }
  }
}

}  // namespace hexad::kernels::cuda
