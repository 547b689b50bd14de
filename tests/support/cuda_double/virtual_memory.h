// The driver's virtual memory: ranges of addresses into which pages of the device are mapped.
#pragma once

#include <cuda.h>

namespace hexad::cuda_double {

/// Sets whether devices have an attribute of their pages, as all do by default: virtual memory management, handles that
/// other processes can open, access of network cards. Making pages with a missing attribute fails with
/// CUDA_ERROR_NOT_SUPPORTED.
void set_attribute(CUdevice_attribute attribute, bool has);

}  // namespace hexad::cuda_double
