// bf16 products by the processor's own bf16 instructions, through oneDNN: onednn.cpp, or onednn_missing.cpp when it was
// not found.
#pragma once

#include <string>

#include "framework/kernels/cpu/products/gemm_tile.h"
#include "framework/kernels/pack_cache.h"

namespace hexad::kernels::cpu::onednn {

/// Whether multiply() works here.
bool available();
/// Whether it is faster than widening bf16 to f32: with AMX, or AMD's AVX-512. Intel's AVX-512 instruction
/// for bf16 runs at half the rate of f32 (measured: 85 against 150 GFLOP/s), and older processors have none.
bool preferred();
/// Library, version and instruction set.
std::string description();

/// c = or += a b for bf16 operands and k > 0, on this thread's share of the cores. If `packs` is given, b is kept there
/// under `key` in the layout that oneDNN likes best. oneDNN's own cache of 1,024 compiled products is shared by all
/// threads of the process; a hit costs 2 us and a new shape 0.1 to 0.5 ms.
void multiply(const GemmTile& product, PackCache* packs, uint64_t key);

}  // namespace hexad::kernels::cpu::onednn
