// First product of SwiGLU experts, and the activation of its result: one launch on tensor cores, or separate launches.
#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/product_groups.h"
#include "framework/kernels/gate_and_up.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr std::string_view op = "grouped swiglu";

/// True if the program was built with a tensor_cores::swiglu_forward and this function supports the operands.
bool fits_one_launch(const Tensor& gate_up, const Tensor& activated, const Tensor& x, const Tensor& w) {
  if (!tensor_cores::swiglu_forward) return false;
  for (const Tensor* t : {&gate_up, &activated, &x, &w})
    if (t->dtype() != Dtype::bf16 || !t->contiguous() || reinterpret_cast<uintptr_t>(pointer<bf16>(*t)) % 16 != 0)
      return false;
  const int64_t width = activated.dim(1);
  return width > 0 && width % tensor_cores::swiglu_columns == 0 && x.dim(1) > 0 && x.dim(1) % 8 == 0;
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
  if (fits_one_launch(gate_up, activated, x, w))
    return tensor_cores::swiglu_forward(stream, gate_up, activated, x, w,
                                        offsets_on_device(stream, offsets, x.device()), weights);
  GroupedMatmulKernels::of_cuda.forward(stream, gate_up, x, w, offsets, Write::replace);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_cuda.forward(stream, activated, gate, up, weights);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const GroupedSwigluKernels GroupedSwigluKernels::of_cuda{.forward = cuda::forward};

}  // namespace hexad::kernels
