#include "tools/hexad/gemm_peers.h"

#include "tools/hexad/eigen_product.h"
#include "tools/hexad/onednn_product.h"

namespace hexad::app {
namespace {

using base::Dtype;
using tensor::Tensor;

GemmPeer onednn(device::DeviceContext& context, Dtype dtype, double seconds) {
  const kernels::Multiply multiply = onednn_product();
  if (!multiply) return {"oneDNN", onednn_description(), 0};
  if (!onednn_multiplies(dtype)) return {"oneDNN", base::cat("has no product in ", dtype, " on this processor"), 0};
  return {"oneDNN", onednn_description(),
          kernels::measure_gemm_rate(context, dtype, seconds, multiply).flops_per_second};
}

GemmPeer eigen(device::DeviceContext& context, Dtype dtype, double seconds) {
  if (dtype == Dtype::bf16) return {"Eigen", "not measured, because it computes bf16 element by element", 0};
  const double rate = kernels::measure_gemm_rate(context, dtype, seconds, eigen_product).flops_per_second;
  return {"Eigen", eigen_description(), rate};
}

}  // namespace

std::vector<GemmPeer> measure_gemm_peers(device::DeviceContext& context, Dtype dtype, double seconds) {
  return {onednn(context, dtype, seconds), eigen(context, dtype, seconds)};
}

}  // namespace hexad::app
