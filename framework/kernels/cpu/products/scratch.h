// Working memory of one thread.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Returns at least `bytes` bytes, aligned to 64, valid until this thread's next call. The contents are undefined. The
/// operating system would provide blocks of this size page by page at every allocation, so a thread keeps its block and
/// only grows it.
void* scratch(int64_t bytes);

}  // namespace hexad::kernels::cpu
