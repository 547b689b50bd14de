#include "framework/kernels/cuda/products/grouped_gemm.cuh"

namespace hexad::kernels::cuda::tensor_cores {

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write) {
  grouped_gemm<GroupedPass::input_gradient, cutlass::bfloat16_t>(stream, dx, dy, w, offsets, dy.dim(-1), dx.dim(-1),
                                                                 write);
}

}  // namespace hexad::kernels::cuda::tensor_cores
