// Scratch memory of one thread.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Returns at least `bytes` bytes of uninitialised memory, aligned to 64 bytes. The memory is valid until this thread's
/// next call. A thread keeps its block and only enlarges it, because the operating system would map each new block page
/// by page.
void* scratch(int64_t bytes);

}  // namespace hexad::kernels::cpu
