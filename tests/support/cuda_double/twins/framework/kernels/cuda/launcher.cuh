// The twin of framework/kernels/cuda/launcher.cuh for the CUDA double.
#pragma once

#include <string_view>
#include <type_traits>

#include "tests/support/cuda_double/kernels/language.h"
#include "tests/support/cuda_double/kernels/launch.h"

namespace hexad::kernels::cuda {

template <class... Parameters>
void start_kernel(std::string_view op, void (*kernel)(Parameters...), dim3 blocks, dim3 threads, size_t shared,
                  cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  (cuda_double::check_argument(op, arguments), ...);
  const auto* const address = reinterpret_cast<const void*>(kernel);
  cuda_double::launch(op, {.blocks = blocks, .threads = threads, .shared = shared, .kernel = address}, stream,
                      [kernel, ... arguments = arguments] { kernel(arguments...); });
}

template <class... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return cuda_double::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

template <class T>
T& dynamic_shared() {
  return *static_cast<T*>(cuda_double::dynamic_shared_memory());
}

}  // namespace hexad::kernels::cuda
