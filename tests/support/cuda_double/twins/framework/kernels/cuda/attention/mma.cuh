// The twin of framework/kernels/cuda/attention/mma.cuh for the CUDA double. The lanes of a warp exchange the values
// that the card's instructions read from all lanes.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/cuda_double/kernels/language.h"

namespace hexad::kernels::cuda::mma {

namespace twin {

inline constexpr unsigned whole_warp = 0xffffffffu;
struct Row {
  uint16_t at[8];
};

/// Returns element (row, column) of matrix m, which is in the lanes' rows.
inline uint16_t element(const cuda_double::Values<Row>& rows, unsigned m, unsigned row, unsigned column) {
  return rows[8 * m + row].at[column];
}

inline cuda_double::Values<Row> rows_of_lanes(const __nv_bfloat16* memory, int row) {
  const __nv_bfloat16* const mine = memory + row;
  if (reinterpret_cast<uintptr_t>(mine) % sizeof(Row) != 0)
    cuda_double::fail_thread("loads a row of a matrix from an address that is not a multiple of 16");
  Row content;
  std::memcpy(&content, mine, sizeof content);
  return {{"ldmatrix", std::source_location::current()}, whole_warp, content};
}

inline uint32_t both(uint16_t low, uint16_t high) { return low | uint32_t{high} << 16; }

inline float value(uint32_t pair, unsigned half) {
  return std::bit_cast<float>((half ? pair >> 16 : pair & 0xffffu) << 16);
}

/// A lane's elements of both factors.
struct Factors {
  uint32_t left[4], right[2];
};

}  // namespace twin

inline void load(uint32_t (&to)[4], const __nv_bfloat16* memory, int row) {
  const auto rows = twin::rows_of_lanes(memory, row);
  const unsigned g = cuda_double::lane() / 4, t = cuda_double::lane() % 4;
  for (unsigned m = 0; m < 4; ++m)
    to[m] = twin::both(twin::element(rows, m, g, 2 * t), twin::element(rows, m, g, 2 * t + 1));
}
inline void load_transposed(uint32_t (&to)[4], const __nv_bfloat16* memory, int row) {
  const auto rows = twin::rows_of_lanes(memory, row);
  const unsigned g = cuda_double::lane() / 4, t = cuda_double::lane() % 4;
  for (unsigned m = 0; m < 4; ++m)
    to[m] = twin::both(twin::element(rows, m, 2 * t, g), twin::element(rows, m, 2 * t + 1, g));
}

inline void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0, uint32_t right1) {
  const cuda_double::Values<twin::Factors> lanes({"mma", std::source_location::current()}, twin::whole_warp,
                                                 {{left[0], left[1], left[2], left[3]}, {right0, right1}});
  const unsigned g = cuda_double::lane() / 4, t = cuda_double::lane() % 4;
  for (unsigned k = 0; k < 16; ++k) {
    // Register, lane (of 4) and half that hold column k of the left factor and row k of the right factor.
    const unsigned part = k / 8, owner = k % 8 / 2, half = k % 2;
    const twin::Factors rows = lanes[4 * g + owner];
    for (unsigned j = 0; j < 2; ++j) {
      const float right = twin::value(lanes[4 * (2 * t + j) + owner].right[part], half);
      for (unsigned below = 0; below < 2; ++below)
        sums[2 * below + j] += twin::value(rows.left[2 * part + below], half) * right;
    }
  }
}

inline uint32_t pack(float low, float high) {
  return twin::both(std::bit_cast<uint16_t>(__float2bfloat16_rn(low)),
                    std::bit_cast<uint16_t>(__float2bfloat16_rn(high)));
}

inline float exp2(float x) {
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0.0f : y;
}

template <int Bytes>
void copy(void* to, const void* from, bool wanted) {
  cuda_double::copy_later(to, from, Bytes, wanted);
}
inline void wait() { cuda_double::finish_copies(); }

}  // namespace hexad::kernels::cuda::mma
