// Epilogue of the gradient of SwiGLU experts' last product: stores a tile of the gradients of gate and up.
#pragma once

#include "framework/kernels/cuda/products/quads.cuh"
#include "framework/kernels/cuda/products/wgmma_sums.h"
#include "framework/kernels/cuda/swiglu_gradient.cuh"
#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// A tile of a group's rows: 128 rows, with 128 columns of the activation. The pointers to bf16 point to the tile's
/// first row and column. These pointers and the strides are multiples of 16 bytes.
struct SwigluGradientTile {
  static constexpr int rows = 128, columns = 128, threads = 128;

  const __nv_bfloat16 *gate, *up;
  __nv_bfloat16 *dgate, *dup;
  __nv_bfloat16* product;          // recomputed activation; null: not stored
  int64_t stride, product_stride;  // elements from row to row of gate, up and their gradients, and of `product`
  const float* weights;            // weights of the tile's rows; null: all weights are 1
  float* dots;       // for each row of the tile, the tile's addend of the gradient of the weight; null: not stored
  int64_t existing;  // number of the group's rows from the tile's first row on; may exceed `rows`
};

/// Stores the tile. sums(i) is the thread's sum at place_of_sum(thread, i, 128), an element of the gradient of the
/// activation. The 128 threads of a warp group must call this function, each with its index `thread`. The sums are
/// rounded to bf16 first, so that the results equal the results of separate kernels. The threads of a quad exchange
/// words so that each thread loads and stores 16 adjacent bytes.
template <class Sums>
__device__ __forceinline__ void store_swiglu_gradient_tile(const SwigluGradientTile& tile, const Sums& sums,
                                                           int thread) {
  using D = __nv_bfloat16;
  constexpr int columns = SwigluGradientTile::columns, items = columns / 32, sums_of_part = columns / 2;
  const int quad_lane = thread % 4;
#pragma unroll
  for (int part = 0; part < SwigluGradientTile::rows / 64; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = part * sums_of_part + half * 2, row = place_of_sum(thread, first, columns).row;
      const bool exists = row < tile.existing;
      const int64_t at = row * tile.stride + quad_lane * 8;
      SwigluGradientItem<D, 8> item[items];  // all loads of a row are in flight together
#pragma unroll
      for (int n = 0; n < items; ++n) {
        if (!exists) continue;
        item[n].gate = load_words<8>(tile.gate + at + n * 32);
        item[n].up = load_words<8>(tile.up + at + n * 32);
      }
      const float weight = exists && tile.weights ? tile.weights[row] : 1.0f;
      float dot = 0;
#pragma unroll
      for (int n = 0; n < items; ++n) {
        uint32_t word[4];  // words of four blocks of eight columns; after the exchange, words of one block
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const int sum = first + (n * 4 + b) * 4;
          word[b] = std::bit_cast<uint32_t>(Vector<D, 2>{to<D>(sums(sum)), to<D>(sums(sum + 1))});
        }
        transpose_in_quad(word, quad_lane);
        if (!exists) continue;
        item[n].dout.at[0] = {word[0], word[1], word[2], word[3]};
        D* const product = tile.product ? tile.product + row * tile.product_stride + quad_lane * 8 + n * 32 : nullptr;
        dot += item[n].write(tile.dgate + at + n * 32, tile.dup + at + n * 32, product, weight);
      }
#pragma unroll
      for (int step = 1; step < 4; step *= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
      if (exists && tile.dots && quad_lane == 0) tile.dots[row] = dot;
    }
}

}  // namespace hexad::kernels::cuda
