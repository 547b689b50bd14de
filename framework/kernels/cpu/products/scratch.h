// Working memory of one thread.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Returns at least `bytes` bytes, aligned to 64, valid until this thread's next call. The contents are undefined. A
/// thread keeps its block and only grows it, because the operating system would map a new block of this size page by
/// page.
void* scratch(int64_t bytes);

}  // namespace hexad::kernels::cpu
