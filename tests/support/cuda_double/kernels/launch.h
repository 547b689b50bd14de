// Launches of kernels on the double: checked as CUDA checks them, queued on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string_view>
#include <type_traits>

namespace hexad::cuda_double {

struct LaunchShape {
  dim3 blocks, threads;
  size_t shared;
  /// Address of the kernel.
  const void* kernel;
};

/// Launches a kernel like <<<>>> and returns immediately. Sets the last error if a card could not launch it: a stream
/// of another device than the thread's, impossible blocks, or more shared memory than allow_shared() granted. Unless
/// kernels are loaded early (Settings), the first launch of a kernel on a device waits for the device, as CUDA may, and
/// loads the kernel.
void launch(std::string_view kernel, const LaunchShape& shape, cudaStream_t stream, std::function<void()> thread);
/// Sets the dynamic shared memory that a kernel may use. Returns cudaErrorInvalidValue for more than a block can have.
cudaError_t allow_shared(const void* kernel, size_t bytes);

/// Throws std::logic_error with the name `kernel` unless a kernel can read at `p`. `p` must be null, device memory or
/// pinned memory; otherwise a card would fault.
void check_pointer(std::string_view kernel, const void* p);

/// Checks a kernel's argument if it is a pointer. If the argument has rows, checks its pointer to the first element.
template <class T>
void check_argument(std::string_view kernel, const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    check_pointer(kernel, argument);
  } else if constexpr (requires { requires std::is_pointer_v<decltype(argument.data)>; }) {
    check_pointer(kernel, argument.data);
  }
}

}  // namespace hexad::cuda_double
