#include "tools/hexad/gemm_peers.h"

#include "tools/hexad/eigen_product.h"
#include "tools/hexad/onednn_product.h"

namespace hexad::app {
namespace {

using base::Dtype;
using tensor::Tensor;

GemmPeer onednn(device::DeviceContext& context, Dtype dtype, double seconds) {
  if (dtype == Dtype::f64) return {"oneDNN", "has no product in f64", 0};
  const kernels::Multiply multiply = onednn_product();
  const double rate = multiply ? kernels::measure_gemm_rate(context, dtype, seconds, multiply).flops_per_second : 0;
  return {"oneDNN", onednn_description(), rate};
}

GemmPeer eigen(device::DeviceContext& context, Dtype dtype, double seconds) {
  if (dtype == Dtype::bf16) return {"Eigen", "computes bf16 element by element: not measured", 0};
  const double rate = kernels::measure_gemm_rate(context, dtype, seconds, eigen_product).flops_per_second;
  return {"Eigen", eigen_description(), rate};
}

}  // namespace

std::vector<GemmPeer> measure_gemm_peers(device::DeviceContext& context, Dtype dtype, double seconds) {
  return {onednn(context, dtype, seconds), eigen(context, dtype, seconds)};
}

}  // namespace hexad::app
