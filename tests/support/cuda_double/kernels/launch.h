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
  /// Shared memory that allow_shared() granted the kernel, bytes; 0 if none.
  size_t allowed;
};

/// Launches like <<<>>>: returns at once, and sets the last error if the card could not do it.
void launch(std::string_view kernel, const LaunchShape& shape, cudaStream_t stream, std::function<void()> thread);
/// The dynamic shared memory that a kernel is allowed; cudaErrorInvalidValue for more than a block can have.
cudaError_t allow_shared(const void* kernel, size_t bytes);
size_t allowed_shared(const void* kernel);

/// Throws std::logic_error naming `kernel` unless a kernel can read at `p`, which is null or memory of a device or
/// pinned: a card's would fault.
void check_pointer(std::string_view kernel, const void* p);

/// Checks a kernel's argument if it is known to be a pointer, or its pointer to the first element if it has rows.
template <class T>
void check_argument(std::string_view kernel, const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    check_pointer(kernel, argument);
  } else if constexpr (requires { requires std::is_pointer_v<decltype(argument.data)>; }) {
    check_pointer(kernel, argument.data);
  }
}

}  // namespace hexad::cuda_double
