// Products of SwiGLU experts together with their activation: one launch on tensor cores, or separate launches.
#include <initializer_list>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/product_groups.h"
#include "framework/kernels/gate_and_up.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr std::string_view op = "grouped swiglu";

/// True if tensor cores support these operands and results, for a product that sums `terms` terms and an activation
/// with `width` columns.
bool fits_one_launch(int64_t width, int64_t terms, std::initializer_list<const Tensor*> operands) {
  for (const Tensor* t : operands)
    if (t->dtype() != Dtype::bf16 || !t->contiguous() || reinterpret_cast<uintptr_t>(pointer<bf16>(*t)) % 16 != 0)
      return false;
  return width > 0 && width % tensor_cores::swiglu_columns == 0 && terms > 0 && terms % 8 == 0;
}

void forward(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x, const Tensor& w,
             const GroupOffsets& offsets, const Tensor& weights) {
  const int64_t rows = x.dim(0), width = activated.dim(1), groups = w.dim(0);
  require_shape(op, "gate_up", gate_up, {rows, 2 * width});
  require_shape(op, "activated", activated, {rows, width});
  require_shape(op, "w", w, {groups, 2 * width, x.dim(1)});
  if (weights.defined()) require_flat(op, "weights", weights, rows);
  check_offsets(op, offsets, groups, rows);
  if (rows == 0 || groups == 0) return;
  if (tensor_cores::swiglu_forward && fits_one_launch(width, x.dim(1), {&gate_up, &activated, &x, &w}))
    return tensor_cores::swiglu_forward(stream, gate_up, activated, x, w,
                                        offsets_on_device(stream, offsets, x.device()), weights);
  GroupedMatmulKernels::of_cuda.forward(stream, gate_up, x, w, offsets, Write::replace);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_cuda.forward(stream, activated, gate, up, weights);
}

/// Computes dweights[row] for each row that belongs to a group: the sum of the row's partial dot products in
/// dots[tiles, rows].
__global__ void add_dots(float* dweights, const float* dots, int64_t rows, int64_t tiles, const int64_t* offsets,
                         int64_t groups) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row < offsets[0] || row >= offsets[groups]) return;
  float sum = 0;
  for (int64_t t = 0; t < tiles; ++t) sum += dots[t * rows + row];
  dweights[row] = sum;
}

void backward_in_one_launch(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dout,
                            const Tensor& w, const Tensor& offsets, const Tensor& gate_up, const Tensor& weights) {
  const Tensor& dweights = gradients.dweights;
  const int64_t rows = dout.dim(0), tiles = gradients.product.dim(1) / tensor_cores::swiglu_columns;
  const Tensor dots = dweights.defined() ? Tensor::empty({tiles, rows}, Dtype::f32, dout.device()) : Tensor{};
  tensor_cores::swiglu_backward(stream, gradients, dots, dout, w, offsets, gate_up, weights);
  if (!dots.defined()) return;
  constexpr int threads = 256;
  launch("grouped swiglu: weights", add_dots, blocks_of(rows, threads), threads, stream, pointer<float>(dweights),
         static_cast<const float*>(pointer<float>(dots)), rows, tiles, device_data<int64_t>(offsets),
         offsets.numel() - 1);
}

void backward(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dout, const Tensor& w,
              const GroupOffsets& offsets, const Tensor& gate_up, const Tensor& weights) {
  const auto& [dgate_up, product, dweights] = gradients;
  const int64_t rows = dout.dim(0), width = product.dim(1), groups = w.dim(0);
  require_shape(op, "dgate_up", dgate_up, {rows, 2 * width});
  require_shape(op, "product", product, {rows, width});
  require_shape(op, "w", w, {groups, dout.dim(1), width});
  require_shape(op, "gate_up", gate_up, {rows, 2 * width});
  if (dweights.defined()) require_flat(op, "dweights", dweights, rows);
  if (weights.defined()) require_flat(op, "weights", weights, rows);
  check_offsets(op, offsets, groups, rows);
  if (rows == 0 || groups == 0) return;
  if (tensor_cores::swiglu_backward && fits_one_launch(width, dout.dim(1), {&dgate_up, &product, &dout, &w, &gate_up}))
    return backward_in_one_launch(stream, gradients, dout, w, offsets_on_device(stream, offsets, dout.device()),
                                  gate_up, weights);
  GroupedMatmulKernels::of_cuda.input_gradient(stream, product, dout, w, offsets, Write::replace);
  const auto [dgate, dup] = gate_and_up(dgate_up);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_cuda.backward(
      stream, {.dgate = dgate, .dup = dup, .product = dweights.defined() ? product : Tensor{}, .dweights = dweights},
      product, {gate, up, weights});
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const GroupedSwigluKernels GroupedSwigluKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
