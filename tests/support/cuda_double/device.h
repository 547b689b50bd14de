// Devices of the CUDA double.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hexad::cuda_double {

/// HEXAD_CUDA_DOUBLE_DEVICES, else 8.
int device_count();
/// Returns this thread's device (cudaSetDevice).
int current_device();

/// Sets what cudaGetLastError will return next on this thread; returns `error`.
cudaError_t set_last_error(cudaError_t error);
/// Its work failed: says `why` on the standard error, and every later call that asks for the device fails.
void break_device(int device, const std::string& why);
/// cudaErrorLaunchFailure if the device is broken, else cudaSuccess.
cudaError_t state_of(int device);
/// Makes the devices those that a new process finds. Call while no stream is there.
void mend_devices();

}  // namespace hexad::cuda_double
