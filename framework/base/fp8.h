// fp8 for transfers between ranks: e4m3 without infinities ("fn": OCP 8-bit Floating Point Specification 1.0;
// Micikevicius et al. 2022, section 3). It is not a Dtype: tensors of codes are u8, and no kernel computes in fp8.
//
// A code consists of a sign bit s, 4 bits of exponent e (bias 7) and 3 bits of mantissa mmm:
//   e = 0                  (-1)^s * 0.mmm * 2^-6    zero and the subnormals, 2^-9 apart
//   e = 1 .. 15            (-1)^s * 1.mmm * 2^(e-7) up to 448 = 1.110 * 2^8
//   e = 15, mmm = 111      NaN (0x7f, 0xff), in place of 480
#pragma once

#include <bit>
#include <cstdint>

namespace hexad::base {

/// An e4m3 code. The conversion from float rounds to the nearest value; ties go to the even code. Values beyond 448,
/// including infinity, are converted to 448. NaN remains NaN. The sign does not change.
///
/// Error of a conversion for |v| <= 464: the values of adjacent codes in [2^k, 2^(k+1)] differ by 2^(k-3). A normal v
/// in this range therefore changes by at most 2^(k-4) <= 2^-4 * |v|. Below 2^-6, the values of adjacent codes differ by
/// 2^-9, so v changes by at most 2^-10:
///
///     |value(code) - v| <= max(relative_error * |v|, absolute_error).
///
/// A number x is sent as the code of v = x / scale and received as scale * value(code). Its error is at most max(2^-4 *
/// |x|, 2^-10 * scale). The quotient and product in float add at most 2^-23 * |x| (and 2^-149, the smallest float).
struct e4m3 {
  static constexpr float largest = 448, smallest_normal = 0x1p-6f, smallest = 0x1p-9f;
  static constexpr float relative_error = 0x1p-4f, absolute_error = 0x1p-10f;
  static constexpr uint8_t nan = 0x7f;

  uint8_t bits = 0;

  constexpr e4m3() = default;
  constexpr explicit e4m3(float value) : bits(round(value)) {}
  static constexpr e4m3 from_bits(uint8_t code) {
    e4m3 result;
    result.bits = code;
    return result;
  }
  constexpr bool operator==(const e4m3&) const = default;  // compares codes: 0 and -0 differ, and a NaN equals itself

  constexpr explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fu, sign = (bits & 0x80u) << 24;
    const float normal = std::bit_cast<float>((magnitude << 20) + (rebias << 23));
    const float value = magnitude < first_normal ? static_cast<float>(magnitude) * smallest : normal;
    return std::bit_cast<float>(sign | (magnitude == nan ? 0x7fc00000u : std::bit_cast<uint32_t>(value)));
  }

  static constexpr uint8_t round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value), magnitude = u & 0x7fffffffu;
    const auto sign = static_cast<uint8_t>((u >> 24) & 0x80u);
    if (value != value) return sign | nan;
    if (magnitude >= std::bit_cast<uint32_t>(largest)) return sign | (nan - 1);
    if (magnitude < std::bit_cast<uint32_t>(smallest_normal)) {
      constexpr float magic = 0x1p14f;  // floats in [2^14, 2^15) are 2^-9 apart, so adding 2^14 rounds to a subnormal
      const float sum = std::bit_cast<float>(magnitude) + magic;
      return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(magic)));
    }
    const uint32_t rounded = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
    return static_cast<uint8_t>(sign | (rounded - (rebias << 3)));
  }

 private:
  static constexpr uint32_t rebias = 127 - 7;     // difference between the exponent biases of a float and of e4m3
  static constexpr uint32_t first_normal = 0x08;  // the code of 2^-6
};

}  // namespace hexad::base
