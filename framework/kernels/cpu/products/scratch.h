// Scratch memory of one thread.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Use of scratch memory. Each use has its own block: `tile` is for one tile of a kernel, `sums` for f32 products that
/// are then added to a bf16 matrix.
enum class Scratch : uint8_t { tile, sums };

/// Returns at least `bytes` bytes of uninitialised memory, aligned to 64 bytes. The memory is valid until this thread's
/// next call for the same use. A thread keeps its blocks and only enlarges them, because the operating system would map
/// each new block page by page.
void* scratch(Scratch use, int64_t bytes);

}  // namespace hexad::kernels::cpu
