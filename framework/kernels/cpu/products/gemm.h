// Products on all threads, divided into tiles.
#pragma once

#include <span>

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu {

/// Hardware unit that multiplies:
/// - vector: accepts all dtypes and widens bf16 to f32
/// - dot: the vector instruction for pairs of bf16; accepts only bf16 and requires machine_has_dot()
/// - matrix: AMX; accepts only bf16 and requires machine_has_amx()
enum class Unit : uint8_t { vector, dot, matrix };

/// Computes independent products. The products are divided into tiles, and each thread takes the next tile when it has
/// finished its current tile. The bits of an element do not depend on this division (see gemm_tile.h), the number of
/// threads, or the number of rows that are computed together. If k is zero, the sums are zero. Each thread keeps the
/// scratch memory of the unit.
void gemm(std::span<const GemmTile> products, Unit unit = Unit::vector);

}  // namespace hexad::kernels::cpu
