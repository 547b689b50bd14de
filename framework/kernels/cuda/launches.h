// Table of the CUDA backend's kernels. A launch checks shapes on the host and returns. No function waits for the device
// or accesses device memory from the host. Grouped products on cards without a kernel for all groups are an exception
// (products/grouped_by_group.cpp).
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Returns the table whose entries cuda_kernels() wraps (see touching.h).
const KernelTable& launches();

}  // namespace hexad::kernels::cuda
