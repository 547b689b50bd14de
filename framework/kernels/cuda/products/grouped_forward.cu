#include "framework/kernels/cuda/products/grouped_gemm.cuh"

namespace hexad::kernels::cuda::tensor_cores {

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write) {
  grouped_gemm<GroupedPass::forward, cutlass::bfloat16_t>(stream, out, x, w, offsets, out.dim(-1), x.dim(-1), write);
}

}  // namespace hexad::kernels::cuda::tensor_cores
