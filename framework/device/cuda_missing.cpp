// Replacement for framework/device/cuda in a program that is built without CUDA.
#include "framework/base/error.h"
#include "framework/device/backend.h"
#include "framework/device/card_memory.h"
#include "framework/device/kernel_loading.h"

namespace hexad::device {

namespace {

[[noreturn]] void refuse() {
  base::fail(
      base::ExitCode::usage,
      "device: cuda was requested, but this program was built without CUDA; use device: cpu, or build with CUDA: run "
      "`cmake --preset cuda`, then `cmake --build --preset cuda`");
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const ContextOptions&) { refuse(); }

CardMemory cuda_card_memory(int) { refuse(); }
int64_t cuda_available_memory(int) { refuse(); }

void load_kernels_at_start() {}

}  // namespace hexad::device
