// Weights in MXFP4 (OCP Microscaling Formats 1.0): blocks of 32 elements of 4 bits with one scale each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hexad::interop::mxfp4 {

/// Number of elements that share a scale, and number of bytes that hold these elements. A byte holds two elements, the
/// first element in the lower 4 bits.
inline constexpr int64_t block = 32, block_bytes = block / 2;

/// Returns the value of an element: one sign bit, two exponent bits and one fraction bit (E2M1). Ignores the upper 4
/// bits.
float value_of(uint8_t element);
/// Writes the elements of `count` blocks as bf16. `scales` has the exponent of each block, plus 127 (E8M0). Every
/// finite result is exact. A scale of 255 gives NaN. A value beyond the range of bf16 becomes infinite.
void to_bf16(std::byte* to, const std::byte* blocks, const std::byte* scales, int64_t count);

}  // namespace hexad::interop::mxfp4
