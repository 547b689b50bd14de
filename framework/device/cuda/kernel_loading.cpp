#include "framework/device/kernel_loading.h"

#include <cstdlib>

namespace hexad::device {

void load_kernels_at_start() { static_cast<void>(setenv("CUDA_MODULE_LOADING", "EAGER", 0)); }

}  // namespace hexad::device
