// Devices of the CUDA double.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hexad::cuda_double {

/// Returns HEXAD_CUDA_DOUBLE_DEVICES, limited to 0 .. 64, or 8 if it is not set.
int device_count();
/// Returns this thread's device (cudaSetDevice); 0 if this thread has chosen none.
int current_device();
/// Returns cudaSuccess if this thread has chosen a device. Otherwise counts `call`, prints its name, and returns the
/// error cudaErrorDeviceUninitialized. On hardware the call would open device 0 and take half a gigabyte of its memory.
/// Functions of the double that need a device call this function first. A process ends with exit code 1 if calls were
/// counted after the last take_calls_without_device().
cudaError_t require_device(const char* call);
/// Returns the number of calls that require_device() has counted since the last call of this function.
int64_t take_calls_without_device();

/// Settings from CUDA's environment variables.
struct Settings {
  int connections;   // CUDA_DEVICE_MAX_CONNECTIONS: hardware connections of a device, 1 to 32; 8 by default
  bool loads_early;  // true if CUDA_MODULE_LOADING is EAGER: first launches then do not load kernels
};
const Settings& settings();

/// Sets the number of multiprocessors of all devices during the lifetime of this object. The default is 132.
class Multiprocessors {
 public:
  explicit Multiprocessors(int number);
  ~Multiprocessors();
  Multiprocessors(const Multiprocessors&) = delete;
  Multiprocessors& operator=(const Multiprocessors&) = delete;
};

/// Limits the shared memory of a block to `bytes` on all devices during the lifetime of this object. The default is
/// 227 KiB.
class SharedMemoryLimit {
 public:
  explicit SharedMemoryLimit(size_t bytes);
  ~SharedMemoryLimit();
  SharedMemoryLimit(const SharedMemoryLimit&) = delete;
  SharedMemoryLimit& operator=(const SharedMemoryLimit&) = delete;
};
/// Returns the maximum bytes of shared memory of a block.
size_t shared_memory_limit();

/// Sets the next result of cudaGetLastError on this thread to `error`, if `error` is not cudaSuccess. Returns `error`.
cudaError_t set_last_error(cudaError_t error);
/// Marks a device as broken after its work failed. Prints `why` on standard error. The device then skips its work. A
/// runtime call returns cudaErrorLaunchFailure if it uses a stream or an event of the device, allocates memory of the
/// device, or waits for the device.
void break_device(int device, const std::string& why);
/// Returns cudaSuccess if the device is not broken. Otherwise, sets this thread's last error to cudaErrorLaunchFailure
/// and returns this error.
cudaError_t state_of(int device);
/// Makes broken devices usable again. No stream may exist during the call.
void mend_devices();

}  // namespace hexad::cuda_double
