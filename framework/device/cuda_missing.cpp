// Stands for framework/device/cuda in a program that is built without it.
#include "framework/base/error.h"
#include "framework/device/backend.h"

namespace hexad::device {

std::unique_ptr<Backend> make_cuda_backend(const ContextOptions&) {
  base::fail(
      base::ExitCode::usage,
      "device: cuda was asked for, but this program was built without CUDA (cmake --preset cuda builds with it); "
      "use device: cpu");
}

}  // namespace hexad::device
