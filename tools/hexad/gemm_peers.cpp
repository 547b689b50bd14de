#include "tools/hexad/gemm_peers.h"

#include "framework/kernels/cpu/products/onednn.h"
#include "tools/hexad/eigen_product.h"

namespace hexad::app {
namespace {

using base::Dtype;
using kernels::Weight;
using tensor::Tensor;

void onednn_product(const Tensor& out, const Tensor& x, const Weight& w) {
  const kernels::cpu::GemmTile product{.m = x.dim(0),
                                       .n = w.data.dim(0),
                                       .k = x.dim(1),
                                       .a = {x.raw(), x.dtype(), x.dim(1), 1},
                                       .b = {w.data.raw(), w.data.dtype(), 1, w.data.dim(1)},
                                       .c = {out.raw(), out.dtype(), out.dim(1)},
                                       .add = false};
  kernels::cpu::onednn::multiply(product, x.dtype() == Dtype::bf16 ? w.packs : nullptr, 0);
}

GemmPeer onednn(device::DeviceContext& context, Dtype dtype, double seconds) {
  if (dtype == Dtype::f64) return {"oneDNN", "has no product in f64", 0};
  const std::string description = kernels::cpu::onednn::description();
  if (!kernels::cpu::onednn::available()) return {"oneDNN", description, 0};
  return {"oneDNN", description, kernels::measure_gemm_rate(context, dtype, seconds, onednn_product).flops_per_second};
}

GemmPeer eigen(device::DeviceContext& context, Dtype dtype, double seconds) {
  if (dtype == Dtype::bf16) return {"Eigen", "computes bf16 element by element: not measured", 0};
  const auto multiply = [](const Tensor& out, const Tensor& x, const Weight& w) { eigen_product(out, x, w.data); };
  return {"Eigen", eigen_description(), kernels::measure_gemm_rate(context, dtype, seconds, multiply).flops_per_second};
}

}  // namespace

std::vector<GemmPeer> measure_gemm_peers(device::DeviceContext& context, Dtype dtype, double seconds) {
  return {onednn(context, dtype, seconds), eigen(context, dtype, seconds)};
}

}  // namespace hexad::app
