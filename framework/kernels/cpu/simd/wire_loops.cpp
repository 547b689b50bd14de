#include "framework/kernels/cpu/simd/wire_loops.h"

#include "framework/kernels/cpu/simd/math.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

inline constexpr uint32_t bits_of(float v) { return __builtin_bit_cast(uint32_t, v); }
inline constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Returns the same code as base::e4m3::round() for |v| < 464, but has internal linkage and no branches.
inline uint32_t e4m3_bits(float v) {
  const uint32_t u = bits_of(v), magnitude = u & 0x7fffffffu;
  const uint32_t normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0x1p14f) - bits_of(0x1p14f);
  return (magnitude < bits_of(0x1p-6f) ? subnormal : normal) | ((u >> 24) & 0x80u);
}

// A subnormal 0.mmm is computed as 1.mmm - 1, which avoids floats below 2^-126. Processors multiply such floats slowly.
inline float e4m3_value(uint32_t code) {
  const uint32_t magnitude = code & 0x7fu, shifted = magnitude << 20;
  const float normal = float_of(shifted + (120u << 23)), subnormal = float_of(shifted + (121u << 23)) - 0x1p-6f;
  const uint32_t value = bits_of(magnitude < 8u ? subnormal : normal);
  return float_of((magnitude == 0x7fu ? 0x7fc00000u : value) | ((code & 0x80u) << 24));
}

// Non-negative floats have the same order as their bits, read as integers. The bits of infinity and NaN are larger than
// the bits of any number.
template <class T>
uint32_t largest_bits(const T* x, int64_t n) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = bits_of(static_cast<float>(load(x, i))) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

template <class T>
void encode(uint8_t* codes, const T* x, float divisor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(e4m3_bits(static_cast<float>(load(x, i)) / divisor));
}

template <class T, class A = acc_t<T>>
void decode(T* out, const uint8_t* codes, float scale, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, static_cast<A>(scale) * static_cast<A>(e4m3_value(codes[i])));
}

template <class T>
constexpr WireLoops<T> loops{.largest_bits = largest_bits<T>, .encode = encode<T>, .decode = decode<T>};

}  // namespace

const ByDtype<WireLoops> wire_loops{loops<float>, loops<bf16>, loops<double>};

}  // namespace hexad::kernels::cpu::HEXAD_ISA
