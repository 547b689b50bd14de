#include "framework/kernels/cuda/products/grouped_gemm.cuh"

namespace hexad::kernels::cuda::tensor_cores {

void weight_gradient_bf16(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                          Write write) {
  grouped_gemm<GroupedPass::weight_gradient, cutlass::bfloat16_t>(stream, dw, dy, x, offsets, dy.dim(-1), x.dim(-1),
                                                                  write);
}

}  // namespace hexad::kernels::cuda::tensor_cores
