// The CUDA backend's own kernels. A launch checks shapes on the host and returns; nothing here waits for the device or
// touches its memory from the host.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// The table whose entries cuda_kernels() wraps (touching.h).
const KernelTable& launches();

}  // namespace hexad::kernels::cuda
