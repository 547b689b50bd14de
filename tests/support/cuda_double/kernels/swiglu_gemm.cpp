// The first product of SwiGLU experts on tensor cores for the CUDA double. The double computes the accumulators of each
// thread by plain loops, and then executes the epilogue of the CUDA backend.
#include <stdexcept>
#include <string>

#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/swiglu_tile.cuh"

namespace hexad::kernels::cuda::tensor_cores {
namespace {

struct Operands {
  __nv_bfloat16 *gate_up, *activated;
  const __nv_bfloat16 *x, *w;
  const int64_t* offsets;
  const float* weights;
  int64_t groups, width, terms;
};

/// Returns the sum of `terms` products.
float dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t terms) {
  float sum = 0;
  for (int64_t k = 0; k < terms; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
  return sum;
}

/// Computes one tile per block of threads. Blocks beyond the last tile compute nothing.
__global__ void swiglu_tiles(Operands o) {
  int64_t tile = blockIdx.x, group = 0;
  for (; group < o.groups; ++group) {
    const int64_t tiles = blocks_of(o.offsets[group + 1] - o.offsets[group], SwigluTile::rows);
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (group == o.groups) return;
  const int64_t row = o.offsets[group] + tile * SwigluTile::rows, column = int64_t{blockIdx.y} * SwigluTile::columns;
  const int64_t existing = o.offsets[group + 1] - row;
  const __nv_bfloat16* const w = o.w + group * 2 * o.width * o.terms;
  const int thread = static_cast<int>(threadIdx.x);
  const auto sums = [&](int i) {
    const int64_t r = thread / 128 * 64 + thread % 128 / 32 * 16 + i % 4 / 2 * 8 + thread % 32 / 4;
    const int64_t c = i / 4 * 8 + thread % 4 * 2 + i % 2;
    if (r >= existing) return 0.0f;
    const int64_t feature = c < SwigluTile::columns ? column + c : o.width + column + c - SwigluTile::columns;
    return dot(o.x + (row + r) * o.terms, w + feature * o.terms, o.terms);
  };
  __nv_bfloat16* const gate = o.gate_up + row * 2 * o.width + column;
  store_swiglu_tile({.gate = gate,
                     .up = gate + o.width,
                     .activated = o.activated + row * o.width + column,
                     .stride = 2 * o.width,
                     .activated_stride = o.width,
                     .weights = o.weights ? o.weights + row : nullptr,
                     .existing = existing},
                    sums, thread);
}

}  // namespace

void swiglu_forward_in_one_kernel(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x,
                                  const Tensor& w, const Tensor& offsets, const Tensor& weights) {
  const int64_t rows = x.dim(0), width = activated.dim(1), terms = x.dim(1), groups = offsets.numel() - 1;
  if (width <= 0 || width % swiglu_columns != 0 || terms <= 0 || terms % 8 != 0)
    throw std::logic_error("[double of CUTLASS] " + std::to_string(width) + " columns and " + std::to_string(terms) +
                           " terms; expected positive multiples of 128 and 8");
  // Each group may have one tile that is not full.
  launch("grouped swiglu", swiglu_tiles, {blocks_of(rows, SwigluTile::rows) + groups, width / SwigluTile::columns},
         SwigluTile::threads, stream,
         Operands{.gate_up = pointer<bf16>(gate_up),
                  .activated = pointer<bf16>(activated),
                  .x = pointer<bf16>(x),
                  .w = pointer<bf16>(w),
                  .offsets = device_data<int64_t>(offsets),
                  .weights = pointer<float>(weights),
                  .groups = groups,
                  .width = width,
                  .terms = terms});
}

}  // namespace hexad::kernels::cuda::tensor_cores
