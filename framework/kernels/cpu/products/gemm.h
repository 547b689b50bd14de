// Products on all threads, as lists of tiles.
#pragma once

#include <span>

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu {

/// Unit that multiplies. `vector` takes all dtypes and widens bf16 to f32. `dot` (the vector unit's instruction for
/// pairs of bf16) and `matrix` (AMX) take only bf16 and need machine_has_dot() and machine_has_amx().
enum class Unit : uint8_t { vector, dot, matrix };

/// Computes independent products. They are cut into tiles, which the threads take in turn. An element's bits do not
/// depend on the cut (see gemm_tile.h). Therefore the bits depend neither on the number of threads nor on the number of
/// rows computed together. k may be zero: the sum is then zero. Each thread keeps the unit's scratch memory.
void gemm(std::span<const GemmTile> products, Unit unit = Unit::vector);

}  // namespace hexad::kernels::cpu
