// Element types, and dispatch from a Dtype known at run time to a C++ type, without macros.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace hexad::base {

enum class Dtype : uint8_t { f32, bf16, f64, i32, i64, u8 };

/// bfloat16: the upper half of an IEEE binary32 number, rounded to nearest even. It has no arithmetic; convert it to
/// float first.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) : bits(round(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<float>(*this); }
  bool operator==(const bf16&) const = default;

  static uint16_t round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    // Without this case, a NaN whose payload is only in the lower half would round to infinity.
    return static_cast<uint16_t>(value == value ? rounded : ((u >> 16) | 0x40u));
  }
};

/// Returns the size of one element in bytes.
int64_t size_of(Dtype dtype);
/// Returns the name of the dtype in recipes and messages, for example "f32" or "bf16".
std::string_view name_of(Dtype dtype);
/// Returns the dtype whose name_of() is `name`. Throws Error(usage) if `name` is unknown; the message lists the legal
/// names.
Dtype dtype_from_name(std::string_view name);
std::ostream& operator<<(std::ostream& out, Dtype dtype);
inline bool is_floating(Dtype d) { return d == Dtype::f32 || d == Dtype::bf16 || d == Dtype::f64; }

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr Dtype value = Dtype::i64;
};
template <>
struct DtypeOf<uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

/// Type in which elements of type T are summed: f64 for f64, otherwise f32.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <class T>
using accumulator_t = typename AccumulatorOf<T>::type;
/// Returns the dtype of sums of elements of dtype `d`. Main gradients, router logits and losses also have this dtype.
inline Dtype accumulator_dtype(Dtype d) { return d == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

/// Calls f.template operator()<T>() for the T among Ts... whose dtype is `dtype`. Throws std::logic_error if no T has
/// this dtype; the message names `op` and `dtype`.
template <class... Ts, class F>
void with_dtype(std::string_view op, Dtype dtype, F&& f) {
  const bool found = ((dtype == dtype_of<Ts> && (f.template operator()<Ts>(), true)) || ...);
  if (found) return;
  std::string legal;
  ((legal += cat(legal.empty() ? "" : ", ", name_of(dtype_of<Ts>))), ...);
  fail_invariant(cat("[", op, "] does not support ", name_of(dtype), "; supported: ", legal));
}

}  // namespace hexad::base
