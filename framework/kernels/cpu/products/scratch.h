// Working memory of one thread.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// At least `bytes` bytes, aligned to 64, for use until this thread's next call; contents undefined. Blocks of this
/// size come from the operating system page by page at every allocation, so a thread keeps its block and only ever
/// grows it.
void* scratch(int64_t bytes);

}  // namespace hexad::kernels::cpu
