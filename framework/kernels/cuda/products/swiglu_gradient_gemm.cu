// The gradient of SwiGLU experts' last product with the gradient of their activation in its epilogue.
#include "framework/kernels/cuda/products/gemm_with_store.cuh"
#include "framework/kernels/cuda/products/swiglu_gradient_tile.cuh"

namespace hexad::kernels::cuda::tensor_cores {
namespace {

using Plain = GroupedGemm<GroupedPass::input_gradient, cutlass::bfloat16_t>;
static_assert(SwigluGradientTile::columns == swiglu_columns);

/// Arguments of the epilogue. Tiles are stored with store_swiglu_gradient_tile().
struct SwigluGradientStore {
  const int64_t* offsets;  // first row of each group
  const __nv_bfloat16* gate_up;
  __nv_bfloat16 *dgate_up, *product;  // `product` is null if it is not stored
  const float* weights;               // weights of all rows; null: all weights are 1
  float* dots;                        // [tiles of columns, rows]; null: not stored
  int64_t rows, width;                // rows of all tensors, and columns of the activation

  template <class Problem, class Coordinate, class Sums>
  CUTLASS_DEVICE void store(const Problem& problem, const Coordinate& tile, const Sums& sums, int thread) const {
    const int64_t first = int64_t{cute::get<0>(tile)} * SwigluGradientTile::rows, group = cute::get<3>(tile);
    const int64_t row = offsets[group] + first, part = cute::get<1>(tile);
    const int64_t column = part * SwigluGradientTile::columns, at = row * 2 * width + column;
    store_swiglu_gradient_tile({.gate = gate_up + at,
                                .up = gate_up + at + width,
                                .dgate = dgate_up + at,
                                .dup = dgate_up + at + width,
                                .product = product ? product + row * width + column : nullptr,
                                .stride = 2 * width,
                                .product_stride = width,
                                .weights = weights ? weights + row : nullptr,
                                .dots = dots ? dots + part * rows + row : nullptr,
                                .existing = cute::get<0>(problem) - first},
                               sums, thread);
  }
};

/// For each sum, the epilogue reads two elements and writes three. Two warp groups therefore compute tiles in turn
/// (CUTLASS's ping-pong kernel): while one group stores its tile, the other group multiplies.
using Tile = cute::Shape<cute::Int<SwigluGradientTile::rows>, cute::Int<SwigluGradientTile::columns>, cute::_64>;
using Gemm = GemmWithStore<Plain, MainloopOf<Plain, Tile, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong>,
                           SwigluGradientStore>;

}  // namespace

void swiglu_backward_in_one_kernel(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dots,
                                   const Tensor& dout, const Tensor& w, const Tensor& offsets, const Tensor& gate_up,
                                   const Tensor& weights) {
  const int64_t width = gradients.product.dim(-1);
  run_groups<GroupedPass::input_gradient, Plain::Element, Gemm>(
      "grouped swiglu", stream, {gradients.product, dout, w, offsets, dout.dim(-1), width},
      [&](SwigluGradientStore& epilogue, const Plain::Groups&) {
        epilogue = {.offsets = device_data<int64_t>(offsets),
                    .gate_up = pointer<bf16>(gate_up),
                    .dgate_up = pointer<bf16>(gradients.dgate_up),
                    .product = dots.defined() ? pointer<bf16>(gradients.product) : nullptr,
                    .weights = pointer<float>(weights),
                    .dots = pointer<float>(dots),
                    .rows = dout.dim(0),
                    .width = width};
      });
}

}  // namespace hexad::kernels::cuda::tensor_cores
