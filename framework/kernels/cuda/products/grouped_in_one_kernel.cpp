#include "framework/kernels/cuda/products/grouped_passes.h"

namespace hexad::kernels::cuda::tensor_cores {

const bool in_one_kernel = true;
const SwigluForward swiglu_forward = swiglu_forward_in_one_kernel;
const SwigluBackward swiglu_backward = swiglu_backward_in_one_kernel;

}  // namespace hexad::kernels::cuda::tensor_cores
