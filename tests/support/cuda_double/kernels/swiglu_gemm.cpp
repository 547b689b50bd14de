// Products of SwiGLU experts on tensor cores for the CUDA double. The double computes the sums of each thread by plain
// loops, and then executes the epilogues of the CUDA backend.
#include <stdexcept>
#include <string>

#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/swiglu_gradient_tile.cuh"
#include "framework/kernels/cuda/products/swiglu_tile.cuh"

namespace hexad::kernels::cuda::tensor_cores {
namespace {

constexpr int tile_rows = 128;
static_assert(SwigluTile::rows == tile_rows && SwigluGradientTile::rows == tile_rows);

/// Returns the sum of `terms` products. The elements of b are `stride` elements apart.
float dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t terms, int64_t stride) {
  float sum = 0;
  for (int64_t k = 0; k < terms; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k * stride]);
  return sum;
}

/// Rows of one group that a block of threads computes: `existing` rows from `row` on, but at most a full tile. The
/// block computes nothing if `existing` is 0.
struct RowTile {
  int64_t group, row, existing = 0;
};
RowTile tile_of_block(const int64_t* offsets, int64_t groups, int64_t tile) {
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t rows = offsets[group + 1] - offsets[group], tiles = blocks_of(rows, tile_rows);
    if (tile < tiles) return {group, offsets[group] + tile * tile_rows, rows - tile * tile_rows};
    tile -= tiles;
  }
  return {groups, 0};
}
/// Returns the number of blocks for `rows` rows. Each group may have one tile that is not full.
int64_t blocks_of_groups(int64_t rows, int64_t groups) { return blocks_of(rows, tile_rows) + groups; }

struct Operands {
  __nv_bfloat16 *gate_up, *activated;
  const __nv_bfloat16 *x, *w;
  const int64_t* offsets;
  const float* weights;
  int64_t groups, width, terms;
};

/// Computes one tile per block of threads.
__global__ void swiglu_tiles(Operands o) {
  const auto [group, row, existing] = tile_of_block(o.offsets, o.groups, blockIdx.x);
  if (existing == 0) return;
  const int64_t column = int64_t{blockIdx.y} * SwigluTile::columns;
  const __nv_bfloat16* const w = o.w + group * 2 * o.width * o.terms;
  const int thread = static_cast<int>(threadIdx.x);
  const auto sums = [&, row = row, existing = existing](int i) {
    const SumPlace place = place_of_sum(thread, i, 2 * SwigluTile::columns);
    if (place.row >= existing) return 0.0f;
    const int64_t feature = place.column < SwigluTile::columns ? column + place.column
                                                               : o.width + column + place.column - SwigluTile::columns;
    return dot(o.x + (row + place.row) * o.terms, w + feature * o.terms, o.terms, 1);
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

struct GradientOperands {
  __nv_bfloat16 *dgate_up, *product;
  const __nv_bfloat16 *dout, *w, *gate_up;
  const int64_t* offsets;
  const float* weights;
  float* dots;
  int64_t groups, rows, width, terms;
};

/// Computes one tile per block of threads.
__global__ void swiglu_gradient_tiles(GradientOperands o) {
  const auto [group, row, existing] = tile_of_block(o.offsets, o.groups, blockIdx.x);
  if (existing == 0) return;
  const int64_t column = int64_t{blockIdx.y} * SwigluGradientTile::columns, at = row * 2 * o.width + column;
  const __nv_bfloat16* const w = o.w + group * o.width * o.terms;
  const int thread = static_cast<int>(threadIdx.x);
  const auto sums = [&, row = row, existing = existing](int i) {
    const SumPlace place = place_of_sum(thread, i, SwigluGradientTile::columns);
    if (place.row >= existing) return 0.0f;
    return dot(o.dout + (row + place.row) * o.terms, w + column + place.column, o.terms, o.width);
  };
  store_swiglu_gradient_tile({.gate = o.gate_up + at,
                              .up = o.gate_up + at + o.width,
                              .dgate = o.dgate_up + at,
                              .dup = o.dgate_up + at + o.width,
                              .product = o.product ? o.product + row * o.width + column : nullptr,
                              .stride = 2 * o.width,
                              .product_stride = o.width,
                              .weights = o.weights ? o.weights + row : nullptr,
                              .dots = o.dots ? o.dots + int64_t{blockIdx.y} * o.rows + row : nullptr,
                              .existing = existing},
                             sums, thread);
}

void check_sizes(int64_t width, int64_t terms) {
  if (width <= 0 || width % swiglu_columns != 0 || terms <= 0 || terms % 8 != 0)
    throw std::logic_error("[double of CUTLASS] " + std::to_string(width) + " columns and " + std::to_string(terms) +
                           " terms; expected positive multiples of 128 and 8");
}

}  // namespace

void swiglu_forward_in_one_kernel(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x,
                                  const Tensor& w, const Tensor& offsets, const Tensor& weights) {
  const int64_t rows = x.dim(0), width = activated.dim(1), terms = x.dim(1), groups = offsets.numel() - 1;
  check_sizes(width, terms);
  launch("grouped swiglu", swiglu_tiles, {blocks_of_groups(rows, groups), width / SwigluTile::columns},
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

void swiglu_backward_in_one_kernel(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dots,
                                   const Tensor& dout, const Tensor& w, const Tensor& offsets, const Tensor& gate_up,
                                   const Tensor& weights) {
  const int64_t rows = dout.dim(0), width = gradients.product.dim(1), terms = dout.dim(1);
  const int64_t groups = offsets.numel() - 1;
  check_sizes(width, terms);
  launch("grouped swiglu", swiglu_gradient_tiles, {blocks_of_groups(rows, groups), width / SwigluGradientTile::columns},
         SwigluGradientTile::threads, stream,
         GradientOperands{.dgate_up = pointer<bf16>(gradients.dgate_up),
                          .product = dots.defined() ? pointer<bf16>(gradients.product) : nullptr,
                          .dout = pointer<bf16>(dout),
                          .w = pointer<bf16>(w),
                          .gate_up = pointer<bf16>(gate_up),
                          .offsets = device_data<int64_t>(offsets),
                          .weights = pointer<float>(weights),
                          .dots = pointer<float>(dots),
                          .groups = groups,
                          .rows = rows,
                          .width = width,
                          .terms = terms});
}

}  // namespace hexad::kernels::cuda::tensor_cores
