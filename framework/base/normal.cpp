// Fast generation of normal numbers. Drawing the billions of initial weights of a large model must not delay the start
// of a run. Each Philox block gives four numbers by the Box-Muller transform in float. The inner loops run over lanes,
// so the compiler vectorises them. Floating-point contraction is off (see cmake/HexadOptions.cmake), so results are
// bitwise identical on every machine.
#include <bit>
#include <cmath>

#include "framework/base/philox.h"

namespace hexad::base {
namespace {

constexpr int lanes = 16;  // number of Philox blocks computed together

// Words of the blocks counter, counter + 1, ...: words[w][j] is word w of block counter + j.
struct Blocks {
  uint32_t words[4][lanes];
};

Blocks philox_blocks(uint64_t counter, std::array<uint32_t, 2> high, std::array<uint32_t, 2> k) {
  Blocks b;
  for (int j = 0; j < lanes; ++j) {
    const uint64_t c = counter + static_cast<uint64_t>(j);
    b.words[0][j] = static_cast<uint32_t>(c), b.words[1][j] = static_cast<uint32_t>(c >> 32);
    b.words[2][j] = high[0], b.words[3][j] = high[1];
  }
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < lanes; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * b.words[0][j], p1 = uint64_t{0xCD9E8D57u} * b.words[2][j];
      b.words[0][j] = static_cast<uint32_t>(p1 >> 32) ^ b.words[1][j] ^ k[0];
      b.words[2][j] = static_cast<uint32_t>(p0 >> 32) ^ b.words[3][j] ^ k[1];
      b.words[1][j] = static_cast<uint32_t>(p1), b.words[3][j] = static_cast<uint32_t>(p0);
    }
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return b;
}

// Returns ln(m / 2^24) for m in 1 .. 2^24 with a relative error below 3e-7: an atanh series for mantissas in
// [sqrt 1/2, sqrt 2).
inline float log_of_uniform(uint32_t m) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(m));
  const uint32_t shifted = bits - 0x3f3504f3u;  // 0x3f3504f3: bits of sqrt 1/2
  const float exponent = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float mantissa = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float s = (mantissa - 1.0f) / (mantissa + 1.0f), z = s * s;
  const float series = 2.0f * s * (1.0f + z * (0.33333333f + z * (0.2f + z * (0.14285715f + z * 0.1111111f))));
  return (exponent - 24.0f) * 0.69314718f + series;
}

// Return cos(pi/2 x) and sin(pi/2 x) for |x| <= 1/2 with an error below 1e-7, by Taylor series.
inline float quarter_cos(float x) {
  const float z = x * x;
  return 1.0f + z * (-1.23370055f + z * (0.25366951f + z * (-0.02086348f + z * 0.00091926f)));
}
inline float quarter_sin(float x) {
  const float z = x * x;
  return x * (1.57079633f + z * (-0.64596410f + z * (0.07969263f + z * (-0.00468175f + z * 0.00016044f))));
}

struct Pair {
  float a, b;
};

// Returns two independent normal numbers computed from two words.
inline Pair box_muller(uint32_t radius, uint32_t angle) {
  const float r = std::sqrt(-2.0f * log_of_uniform((radius >> 8) + 1));
  // The upper two bits of the angle choose the quarter turn. The next 24 bits are the position in the quarter turn,
  // from -1/2 to 1/2.
  const uint32_t quarter = angle >> 30;
  const float x = static_cast<float>(static_cast<int32_t>((angle << 2) >> 8)) * 0x1p-24f - 0.5f;
  const float c = r * quarter_cos(x), s = r * quarter_sin(x);
  const float p = quarter & 1u ? s : c, q = quarter & 1u ? c : s;
  return {quarter & 2u ? -p : p, quarter & 1u ? (quarter & 2u ? q : -q) : (quarter & 2u ? -q : q)};
}

}  // namespace

void Philox::normals(std::span<float> out, uint64_t first) const {
  uint64_t block = first / 4;
  uint64_t skip = first % 4;
  float values[4][lanes];  // values[w][j] is number w of block j
  for (size_t done = 0; done < out.size(); block += lanes, skip = 0) {
    const Blocks b = philox_blocks(block, high_, key_);
    for (int w = 0; w < 4; w += 2)
      for (int j = 0; j < lanes; ++j) {
        const Pair p = box_muller(b.words[w][j], b.words[w + 1][j]);
        values[w][j] = p.a, values[w + 1][j] = p.b;
      }
    for (uint64_t i = skip; i < lanes * 4 && done < out.size(); ++i) out[done++] = values[i % 4][i / 4];
  }
}

float Philox::normal(uint64_t index) const {
  float value = 0;
  normals({&value, 1}, index);
  return value;
}

}  // namespace hexad::base
