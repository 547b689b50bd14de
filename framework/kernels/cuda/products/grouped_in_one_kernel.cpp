#include "framework/kernels/cuda/products/grouped_passes.h"

namespace hexad::kernels::cuda::tensor_cores {

const bool in_one_kernel = true;

}  // namespace hexad::kernels::cuda::tensor_cores
