// Test interface of the double of the driver's virtual memory, which maps pages of a device at reserved addresses.
// Every function for memory except cuMemGetAllocationGranularity fails with CUDA_ERROR_INVALID_CONTEXT in a thread that
// has chosen no device.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string_view>

namespace hexad::cuda_double {

/// Sets whether devices have an attribute of their pages: virtual memory management, handles that other processes can
/// open, or access by network cards. By default, devices have all three attributes. The creation of pages that need a
/// missing attribute fails with CUDA_ERROR_NOT_SUPPORTED.
void set_attribute(CUdevice_attribute attribute, bool has);

/// Makes the next call of `function`, "cuMemMap" or "cuMemSetAccess", fail with `error`.
void fail_next(std::string_view function, CUresult error = CUDA_ERROR_UNKNOWN);
/// Returns the number of address ranges that are reserved.
int64_t reservations();

}  // namespace hexad::cuda_double
