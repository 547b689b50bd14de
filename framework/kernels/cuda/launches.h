// The CUDA backend's own kernels. A launch checks shapes on the host and returns. No code here waits for the device or
// accesses its memory from the host.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Returns the table whose entries cuda_kernels() wraps (touching.h).
const KernelTable& launches();

}  // namespace hexad::kernels::cuda
