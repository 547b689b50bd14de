// Replacement for framework/kernels/cuda in a program that is built without CUDA.
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using namespace base;

const KernelTable& cuda_kernels() {
  fail(ExitCode::usage,
       "[kernels] this program was built without CUDA; to build it with CUDA, run `cmake --preset cuda`, then `cmake "
       "--build --preset cuda`");
}

}  // namespace hexad::kernels
