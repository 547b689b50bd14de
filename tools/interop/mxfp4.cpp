#include "tools/interop/mxfp4.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/dtype.h"

namespace hexad::interop::mxfp4 {

float value_of(uint8_t element) {
  constexpr float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float magnitude = magnitudes[element & 7u];
  return (element & 8u) != 0 ? -magnitude : magnitude;
}

void to_bf16(std::byte* to, const std::byte* blocks, const std::byte* scales, int64_t count) {
  constexpr int bias = 127;
  constexpr uint8_t not_a_number = 255;
  for (int64_t b = 0; b < count; ++b, blocks += block_bytes) {
    const auto stored = std::to_integer<uint8_t>(scales[b]);
    const auto put = [&](uint8_t element) {
      const float value = stored == not_a_number ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::ldexp(value_of(element), static_cast<int>(stored) - bias);
      const uint16_t bits = base::bf16(value).bits;
      std::memcpy(to, &bits, sizeof bits);
      to += sizeof bits;
    };
    for (int64_t i = 0; i < block_bytes; ++i) {
      const auto pair = std::to_integer<uint8_t>(blocks[i]);
      put(static_cast<uint8_t>(pair & 15u));
      put(static_cast<uint8_t>(pair >> 4));
    }
  }
}

}  // namespace hexad::interop::mxfp4
