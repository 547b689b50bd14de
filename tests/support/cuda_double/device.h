// Devices of the CUDA double.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hexad::cuda_double {

/// Returns HEXAD_CUDA_DOUBLE_DEVICES, or 8 if it is not set.
int device_count();
/// Returns this thread's device (cudaSetDevice).
int current_device();

/// Sets the next result of cudaGetLastError on this thread, and returns `error`.
cudaError_t set_last_error(cudaError_t error);
/// Marks a device as broken after its work failed. Prints `why` on standard error. Every later call that needs the
/// device fails.
void break_device(int device, const std::string& why);
/// Returns cudaErrorLaunchFailure if the device is broken, otherwise cudaSuccess.
cudaError_t state_of(int device);
/// Restores the devices to the state of a new process. Call it while no stream exists.
void mend_devices();

}  // namespace hexad::cuda_double
