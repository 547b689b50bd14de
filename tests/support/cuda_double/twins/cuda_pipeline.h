// CUDA's asynchronous copies to shared memory, for the CUDA double. A thread's copies are made when the thread waits
// for them.
#pragma once

#include "tests/support/cuda_double/kernels/block.h"

// NOLINTBEGIN(readability-identifier-naming)
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  hexad::cuda_double::copy_later(to, from, bytes, true);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t latest) {
  if (latest != 0) hexad::cuda_double::fail_thread("leaves copies in flight; the double only supports a wait for all");
  hexad::cuda_double::finish_copies();
}
// NOLINTEND(readability-identifier-naming)
