// Lossless division of an f32 main weight into a bf16 weight, a rest of 16 bits, and a mark (docs/adr/0014).
//
// The weight is the main weight rounded to nearest even. The rest is the lower half of the main weight's bits. If the
// rest is above half a step of bf16, the weight was rounded up (away from zero). If the rest is below half a step, the
// weight was rounded down. If the rest is exactly half a step, the weight is even and may have been rounded in either
// direction. In this case, one more bit is needed: the mark, which is true if the weight was rounded up. AdamW stores
// the mark as the sign of the second moment, which is never negative.
//
// The functions are always inlined, because their callers are compiled for several instruction sets and GPUs.
#pragma once

#include <cstdint>

namespace hexad::base {

/// Returns the lower 16 bits of a main weight.
[[gnu::always_inline]] inline constexpr uint16_t rest_of(float main) {
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, main) & 0xffffu);
}

/// True if a main weight is exactly halfway between two bf16 numbers, and rounding to even moves it away from zero.
[[gnu::always_inline]] inline constexpr bool marked(float main) {
  return (__builtin_bit_cast(uint32_t, main) & 0x1ffffu) == 0x18000u;
}

/// Returns the main weight with the given weight (the bits of a bf16 number), rest and mark. A NaN remains a NaN, but
/// its payload may change.
[[gnu::always_inline]] inline constexpr float main_of(uint16_t weight, uint16_t rest, bool mark) {
  const uint32_t half = 0x8000u, up = rest > half || (rest == half && mark) ? 1u : 0u;
  return __builtin_bit_cast(float, ((static_cast<uint32_t>(weight) - up) << 16) | rest);
}

/// Returns the bits of a second moment whose sign stores `mark`. Bits is an unsigned type of the moment's width.
template <class Bits>
[[gnu::always_inline]] inline constexpr Bits with_mark(Bits moment, bool mark) {
  constexpr int sign = 8 * static_cast<int>(sizeof(Bits)) - 1;
  constexpr Bits all = static_cast<Bits>(~Bits{0});
  return static_cast<Bits>((moment & (all >> 1)) | (static_cast<Bits>(mark) << sign));
}
/// True if the sign of a second moment, given by its bits, stores a mark.
template <class Bits>
[[gnu::always_inline]] inline constexpr bool has_mark(Bits moment) {
  return moment >> (8 * sizeof(Bits) - 1) != 0;
}

}  // namespace hexad::base
