// Element types and elementary functions for the loops of this folder, which are compiled once for each instruction
// set. Every function processes one element, because `omp simd` loops vectorise it. Every function has internal linkage
// (see cmake/HexadSimd.cmake).
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu::HEXAD_ISA {

using base::bf16;
template <class T>
using acc_t = base::accumulator_t<T>;

namespace {

// Returns element i, converted to the accumulator type.
inline float load(const float* p, int64_t i) { return p[i]; }
inline double load(const double* p, int64_t i) { return p[i]; }
inline float load(const bf16* p, int64_t i) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(p[i].bits) << 16);
}

// Returns the bits of `v` rounded to the nearest bf16 (ties to even); NaN remains NaN. Gives the same result as
// bf16::round, which has external linkage and is therefore not used here.
inline uint16_t bf16_bits(float v) {
  const uint32_t u = __builtin_bit_cast(uint32_t, v);
  const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u), quiet = u | 0x400000u;
  return static_cast<uint16_t>((v == v ? rounded : quiet) >> 16);
}

inline void store(float* p, int64_t i, float v) { p[i] = v; }
inline void store(float* p, int64_t i, double v) { p[i] = static_cast<float>(v); }
inline void store(double* p, int64_t i, double v) { p[i] = v; }
inline void store(bf16* p, int64_t i, float v) { p[i].bits = bf16_bits(v); }
inline void store(bf16* p, int64_t i, double v) { p[i].bits = bf16_bits(static_cast<float>(v)); }

// Returns a * b + c with one rounding. The compiler fuses no other operations, because contraction is off. Therefore an
// element has the same bits in the vector part of a loop, in its scalar remainder, and on every instruction set.
inline float fma_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Factors of e^x = p * 2^n for |x| <= 104, by Cody-Waite reduction to |r| <= ln 2 / 2 and the polynomial of Cephes'
// expf.
struct ScaledExp {
  float p;
  int32_t n;
};
inline ScaledExp scaled_exp(float x) {
  constexpr float magic = 0x1.8p23f;  // adding this number rounds to an integer
  const float shifted = fma_of(x, 0x1.715476p0f, magic);
  const float n = shifted - magic;
  const float r = fma_of(n, -0x1.7f7d1cp-20f, fma_of(n, -0x1.62e4p-1f, x));
  float p = 1.9875691500e-4f;
  p = fma_of(p, r, 1.3981999507e-3f);
  p = fma_of(p, r, 8.3334519073e-3f);
  p = fma_of(p, r, 4.1665795894e-2f);
  p = fma_of(p, r, 1.6666665459e-1f);
  p = fma_of(p, r, 5.0000001201e-1f);
  p = fma_of(p, r * r, r) + 1.0f;
  return {p, __builtin_bit_cast(int32_t, shifted) - __builtin_bit_cast(int32_t, magic)};
}

// Returns 2^n for -127 < n < 128.
inline float power_of_two(int32_t n) { return __builtin_bit_cast(float, static_cast<uint32_t>(n + 127) << 23); }

// Returns x clamped to [low, high]; NaN remains NaN.
inline float clamp_of(float x, float low, float high) {
  const float c = x < low ? low : x;
  return c > high ? high : c;
}

/// Returns e^x with an error of at most 2 ulp, also for subnormal results. Infinite and NaN arguments give 0, inf and
/// NaN.
inline float exp_of(float x) {
  const ScaledExp e = scaled_exp(clamp_of(x, -104.0f, 89.0f));  // 2^n is two factors, because -150 <= n <= 128
  return e.p * power_of_two(e.n >> 1) * power_of_two(e.n - (e.n >> 1));
}

/// Returns 1 / d for 1 <= d < 2^126 with an error of at most 2 ulp. Computes an estimate from the bits of d and refines
/// it by three Newton steps. A vector division would occupy its execution unit twice as long.
inline float reciprocal_of(float d) {
  float r = __builtin_bit_cast(float, 0x7ef311c7u - __builtin_bit_cast(uint32_t, d));
  r = fma_of(r, fma_of(-d, r, 1.0f), r);
  r = fma_of(r, fma_of(-d, r, 1.0f), r);
  return fma_of(r, fma_of(-d, r, 1.0f), r);
}

/// Returns 1 / (1 + e^-x) with an error of at most 4 ulp for x > -87; about 1e-38 for smaller x.
inline float sigmoid_of(float x) {
  const ScaledExp e = scaled_exp(clamp_of(-x, -87.0f, 87.0f));
  return reciprocal_of(fma_of(e.p, power_of_two(e.n), 1.0f));
}

/// Returns erf(x) with an error of at most 2 ulp. Uses an odd polynomial near zero, and 1 - exp(polynomial) elsewhere.
inline float erf_of(float x) {
  const float t = x < 0 ? -x : x, s = x * x;
  float far = fma_of(-1.72853470e-5f, t, 3.83197126e-4f);
  far = fma_of(far, s, fma_of(-3.88396438e-3f, t, 2.42546219e-2f));
  far = fma_of(far, t, -1.06777877e-1f);
  far = fma_of(far, t, -6.34846687e-1f);
  far = fma_of(far, t, -1.28717512e-1f);
  far = fma_of(far, t, -t);
  far = 1.0f - exp_of(far);
  float near = -5.96761703e-4f;
  near = fma_of(near, s, 4.99119423e-3f);
  near = fma_of(near, s, -2.67681349e-2f);
  near = fma_of(near, s, 1.12819925e-1f);
  near = fma_of(near, s, -3.76125336e-1f);
  near = fma_of(near, s, 1.28379166e-1f);
  near = fma_of(near, x, x);
  return t > 0.921875f ? (x < 0 ? -far : far) : near;
}

inline float sqrt_of(float x) { return __builtin_sqrtf(x); }

// f64 is used for reference results, so accuracy matters more than speed.
inline double exp_of(double x) { return __builtin_exp(x); }
inline double erf_of(double x) { return __builtin_erf(x); }
inline double sigmoid_of(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
inline double sqrt_of(double x) { return __builtin_sqrt(x); }

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
