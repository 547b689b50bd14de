#include "framework/kernels/cpu/products/pair_product.h"

// Products with the vector instruction for pairs of bf16 (AVX-512 BF16). Up to eleven rows of 32 sums are kept in
// registers.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

constexpr int max_rows = 11;  // sums use 22 of 32 registers; 32 rows are divided into 11, 11 and 10

/// Computes rows [0, height) of to = from + a b, or of to = a b if from.data is null.
template <int height, class Beside>
__attribute__((noinline)) void multiply_rows(const Sums& to, const Sums& from, const char* a, const Factors& factors,
                                             const Beside& beside) {
  __m512 sum[height][2] = {};
  if (from.data) {
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      sum[i][0] = _mm512_loadu_ps(from.data + i * from.stride);
      sum[i][1] = _mm512_loadu_ps(from.data + i * from.stride + side);
    }
  }
  const auto pairs = [](const void* p) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p)); };
  const char* b = factors.b;
  const auto add = [&](int64_t p) __attribute__((always_inline)) {
    const __m512bh left = pairs(b + p * 64), right = pairs(b + tile_bytes + p * 64);
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      int pair;
      __builtin_memcpy(&pair, a + i * factors.a.row + p * 4, 4);
      const auto same = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], same, left);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], same, right);
    }
  };
  const int64_t whole = factors.depth / terms;
  for (int64_t s = 0; s < whole; ++s, a += factors.a.step, b += step_bytes) {
#pragma GCC unroll 4
    for (int p = 0; p < side; ++p) add(p);
    beside();
  }
  if (whole < factors.steps()) {
    for (int64_t p = 0; 2 * p < factors.depth % terms; ++p) add(p);
    beside();
  }
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    _mm512_storeu_ps(to.data + i * to.stride, sum[i][0]);
    _mm512_storeu_ps(to.data + i * to.stride + side, sum[i][1]);
  }
}

/// Computes `rows` rows, at most max_rows, with the smallest compiled height that covers them.
template <class Beside>
void multiply_some(int64_t rows, const Sums& to, const Sums& from, const char* a, const Factors& factors,
                   const Beside& beside) {
  const auto multiply = rows > 10  ? multiply_rows<max_rows, Beside>
                        : rows > 6 ? multiply_rows<10, Beside>
                        : rows > 3 ? multiply_rows<6, Beside>
                                   : multiply_rows<3, Beside>;
  multiply(to, from, a, factors, beside);
}

struct VectorUnit {
  static constexpr PairBlocks blocks = dot::blocks;

  /// Multiplies `factors.rows` rows, rounded up to a compiled height. The function may therefore read and write rows
  /// beyond `factors.rows`, but none beyond the 32 rows of a tile.
  static void multiply(const Sums& to, const Sums& from, const Factors& factors, InterleavedWork& interleaved) {
    for (int64_t r = 0; r < factors.rows; r += max_rows) {
      const Sums rows_to{to.data + r * to.stride, to.stride},
          rows_from{from.data ? from.data + r * from.stride : nullptr, from.stride};
      const int64_t rows = min(max_rows, factors.rows - r);
      const char* a = factors.a.data + r * factors.a.row;
      if (r == 0)
        multiply_some(rows, rows_to, rows_from, a, factors, [&] { interleaved.step(); });
      else
        multiply_some(rows, rows_to, rows_from, a, factors, [] {});
    }
  }
};

}  // namespace

void gemm_tile(const GemmTile& t, const GemmTile* next, void* scratch) { multiply_tile<VectorUnit>(t, next, scratch); }

}  // namespace hexad::kernels::cpu::HEXAD_ISA
