// Kernel launches on the CUDA double. Each launch is checked as CUDA checks it, and appended to a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hexad::cuda_double {

struct LaunchShape {
  dim3 blocks, threads;
  size_t shared;
  /// Address of the kernel.
  const void* kernel;
};

/// Kernels that the devices have loaded. Thread-safe.
class LoadedKernels {
 public:
  /// Loads a kernel. The first call for a kernel on a device waits for the device's earlier work, as CUDA may. The
  /// call does not wait if kernels are loaded early (Settings).
  void load(uint64_t kernel, int device);

 private:
  std::mutex mutex_;
  std::set<std::pair<int, uint64_t>> loaded_;
};

/// Appends a kernel to a stream, like <<<>>>. Appends nothing, and sets the last error,
/// - if the thread has not chosen the device of the stream;
/// - if a card could not run the grid or its blocks, because they are empty or too large;
/// - if the kernel needs more shared memory than the larger of 48 KiB and the limit set by allow_shared().
/// Returns without waiting for the kernel. However, a kernel's first launch on a device waits for the device's earlier
/// work if kernels are not loaded early (Settings). CUDA may also wait, to load the kernel.
void launch(std::string_view kernel, const LaunchShape& shape, cudaStream_t stream, std::function<void()> thread);
/// Sets the dynamic shared memory that a kernel may use. Returns cudaErrorInvalidValue for more than a block can have.
cudaError_t allow_shared(const void* kernel, size_t bytes);

/// Throws std::logic_error, which names `kernel`, if `p` points to host memory that is not pinned. A card's kernel
/// would fault at such memory.
void check_pointer(std::string_view kernel, const void* p);

/// Calls check_pointer() for a kernel's argument that is a pointer, or for the pointer `data` that it contains.
template <class T>
void check_argument(std::string_view kernel, const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    check_pointer(kernel, argument);
  } else if constexpr (requires { requires std::is_pointer_v<decltype(argument.data)>; }) {
    check_pointer(kernel, argument.data);
  }
}

}  // namespace hexad::cuda_double
