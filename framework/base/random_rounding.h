// Stochastic rounding of floats to bf16: up or down at random, with the exact value as the expected value. Rounding to
// nearest loses every change smaller than half the distance between bf16 numbers. Half the distance is at least 2^-9 of
// the value. Stochastic rounding keeps all changes on average: the result is a random walk around the exact value
// (Croci et al. 2022, "Stochastic rounding: implementation, error analysis and applications"). Gupta et al. 2015 were
// the first to train networks with it.
//
// The functions are always inlined, because their callers are compiled for several instruction sets and GPUs.
#pragma once

#include <cstdint>

namespace hexad::base {

/// Returns 32 random bits for element `index` under `key`, the same on every device. Under one key, the bits of
/// different indices differ. The mixing function is lowbias32 (Wellons 2018, "Prospecting for Hash Functions").
[[gnu::always_inline]] inline constexpr uint32_t random_bits(uint32_t key, uint32_t index) {
  uint32_t x = index ^ key;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// Rounds `v` to one of the two adjacent bf16 numbers and returns its bits. The lower 16 bits of `random` choose
/// between them; the nearer number is more probable. Infinities and numbers that bf16 can represent do not change. NaN
/// remains NaN. A finite value beyond the largest bf16 may become infinite.
[[gnu::always_inline]] inline constexpr uint16_t bf16_bits_at_random(float v, uint32_t random) {
  const uint32_t u = __builtin_bit_cast(uint32_t, v), rounded = u + (random & 0xffffu), quiet = u | 0x400000u;
  return static_cast<uint16_t>((v == v ? rounded : quiet) >> 16);
}

}  // namespace hexad::base
