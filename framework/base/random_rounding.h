// Random rounding of floats to bf16: up or down, so that the expected value is exact. Rounding to nearest loses every
// change below half a bf16 step, which is at least 2^-9 of the value. Random rounding keeps all changes on average: the
// result is a random walk around the exact value (Croci et al. 2022, "Stochastic rounding: implementation, error
// analysis and applications"). Gupta et al. 2015 trained networks with it first.
//
// The functions are always inlined, because their callers are compiled for several instruction sets and for GPUs.
#pragma once

#include <cstdint>

namespace hexad::base {

/// Returns 32 random bits of element `index` under `key`. They are the same on every device. For one key, the bits of
/// two indices differ. The mixing is lowbias32 (Wellons 2018, "Prospecting for Hash Functions").
[[gnu::always_inline]] inline constexpr uint32_t random_bits(uint32_t key, uint32_t index) {
  uint32_t x = index ^ key;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// Rounds `v` to one of its two neighbours in bf16 and returns the bits. The low 16 bits of `random` decide; the nearer
/// neighbour is more probable. Exact bf16 values, infinities and NaN are unchanged. A finite value beyond the largest
/// bf16 may become infinite.
[[gnu::always_inline]] inline constexpr uint16_t bf16_bits_at_random(float v, uint32_t random) {
  const uint32_t u = __builtin_bit_cast(uint32_t, v), rounded = u + (random & 0xffffu), quiet = u | 0x400000u;
  return static_cast<uint16_t>((v == v ? rounded : quiet) >> 16);
}

}  // namespace hexad::base
