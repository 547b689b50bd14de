// bf16 operands as pairs of terms, for the instructions that multiply and add pairs of bf16. Operands are copied
// ("packed") into tiles of 16 rows of 64 bytes, with zeros beyond their edges. A left tile is
// [16 rows][16 pairs of terms], and a right tile is [16 pairs of terms][16 columns]. As a matrix of pairs, a right tile
// is the transpose of a left tile. Only files that hexad_isa_objects compiles with AVX-512 and its bf16 instructions
// include this file, so everything has internal linkage.
#pragma once

#include <immintrin.h>

#include "framework/kernels/cpu/products/micro.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

constexpr int64_t side = 16, terms = 32, tile_bytes = 1024;  // sizes of a tile: rows, terms of a sum, bytes
constexpr int64_t strip = 2 * side;                          // rows or columns multiplied at a time
constexpr int64_t step_bytes = 2 * tile_bytes;               // bytes of a strip of 32 terms

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Lines of an operand: the rows of `a` or the columns of `b`, which contain the terms of a sum. If `contiguous` is
/// true, the terms of a line are adjacent in memory, and lines are `stride` elements apart. Otherwise, the lines are
/// adjacent for each term, and terms are `stride` elements apart.
struct Lines {
  const uint16_t* data;
  int64_t stride;
  bool contiguous;  // true: `stride` separates lines; false: `stride` separates terms

  const uint16_t* at(int64_t line, int64_t term) const {
    return data + (contiguous ? line * stride + term : line + term * stride);
  }
};

Lines rows_of(const Operand& a) {
  return {static_cast<const uint16_t*>(a.data), a.column == 1 ? a.row : a.column, a.column == 1};
}
Lines columns_of(const Operand& b) {
  return {static_cast<const uint16_t*>(b.data), b.column == 1 ? b.row : b.column, b.column != 1};
}

__mmask32 first(int64_t n) { return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1; }
__mmask16 first16(int64_t n) { return n >= 16 ? __mmask16(0xffff) : __mmask16((1u << (n > 0 ? n : 0)) - 1); }

/// Sixteen pairs of terms. A pair is stored as a float, which has the same size.
using Pairs = V<float>;

/// Copies 16 pairs of line `line` + i to row i of the tile `to`, for 16 lines. Missing elements are set to zero. The
/// terms of a line must be contiguous.
void copy_lines(float* to, const Lines& from, int64_t line, int64_t lines, int64_t term, int64_t depth) {
  const __mmask32 mask = first(depth);
  for (int i = 0; i < side; ++i, to += side)
    _mm512_store_si512(to, i < lines ? _mm512_maskz_loadu_epi16(mask, from.at(line + i, term)) : __m512i{});
}

/// Copies pair i of 16 lines to row i of the tile `to`, for 16 pairs. Missing elements are set to zero. The lines of a
/// term must be contiguous.
void pair_lines(float* to, const Lines& from, int64_t line, int64_t lines, int64_t term, int64_t depth) {
  const __mmask16 mask = first16(lines);
  const auto row = [mask](const uint16_t* p) {
    return __builtin_convertvector(reinterpret_cast<V<uint16_t, 16>>(_mm256_maskz_loadu_epi16(mask, p)),
                                   V<uint32_t, 16>);
  };
  for (int i = 0; i < side; ++i, to += side) {
    const uint16_t* p = from.at(line, term + 2 * i);
    V<uint32_t, 16> pair = {};
    if (2 * i < depth) pair = row(p);
    if (2 * i + 1 < depth) pair |= row(p + from.stride) << 16;
    store<16>(to, reinterpret_cast<Pairs>(pair));
  }
}

/// Fills two tiles, like pair_lines(), from 32 lines and 32 terms.
void pair_all_lines(float* to, const Lines& from, int64_t line, int64_t term) {
  using Quads = V<int64_t, 8>;
  using Words = V<uint16_t, 32>;
  // The two interleaving instructions need lines 4 * l to 4 * l + 3 and 16 + 4 * l to 16 + 4 * l + 3 in the l-th group
  // of 128 bits.
  const Quads order = {0, 4, 1, 5, 2, 6, 3, 7};
  Words first_half, second_half;
  for (int i = 0; i < 32; ++i) {
    const int at = i / 8 * 8 + i % 8 / 2;
    first_half[i] = static_cast<uint16_t>(at + i % 2 * 32), second_half[i] = static_cast<uint16_t>(first_half[i] + 4);
  }
  const uint16_t* p = from.at(line, term);
#pragma GCC unroll 16
  for (int i = 0; i < side; ++i, to += side) {
    const auto row = [&](int64_t r) {
      return reinterpret_cast<Words>(__builtin_shuffle(reinterpret_cast<Quads>(load<32>(p + r * from.stride)), order));
    };
    const Words even = row(2 * i), odd = row(2 * i + 1);
    store<16>(to, reinterpret_cast<Pairs>(__builtin_shuffle(even, odd, first_half)));
    store<16>(to + side * side, reinterpret_cast<Pairs>(__builtin_shuffle(even, odd, second_half)));
  }
}

/// Writes to `to` the transpose of 16 x 16 pairs in memory. The rows of these pairs are `stride` bytes apart. Each
/// register loads the same range of 16 bytes from four rows whose indices differ by four. Pairs are then exchanged only
/// within 128 bits. This method needs half as many shuffles as loading whole rows.
void transpose_from(float* to, const void* from, int64_t stride) {
  const char* p = static_cast<const char*>(from);
  const auto part = [&](int row, int quarter) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + row * stride + quarter * 16));
  };
  const V<int32_t, 16> low = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29}, high = low + 2;
  const V<int64_t, 8> even = {0, 8, 2, 10, 4, 12, 6, 14}, odd = even + 1;
  using Quads = V<int64_t, 8>;
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    Pairs r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512i x = _mm512_zextsi128_si512(part(i, q));
      x = _mm512_mask_broadcast_i32x4(x, 0x00f0, part(i + 4, q));
      x = _mm512_mask_broadcast_i32x4(x, 0x0f00, part(i + 8, q));
      r[i] = reinterpret_cast<Pairs>(_mm512_mask_broadcast_i32x4(x, 0xf000, part(i + 12, q)));
    }
    const auto s0 = reinterpret_cast<Quads>(__builtin_shuffle(r[0], r[1], low)),
               s1 = reinterpret_cast<Quads>(__builtin_shuffle(r[0], r[1], high)),
               s2 = reinterpret_cast<Quads>(__builtin_shuffle(r[2], r[3], low)),
               s3 = reinterpret_cast<Quads>(__builtin_shuffle(r[2], r[3], high));
    store<16>(to + (4 * q) * side, reinterpret_cast<Pairs>(__builtin_shuffle(s0, s2, even)));
    store<16>(to + (4 * q + 1) * side, reinterpret_cast<Pairs>(__builtin_shuffle(s0, s2, odd)));
    store<16>(to + (4 * q + 2) * side, reinterpret_cast<Pairs>(__builtin_shuffle(s1, s3, even)));
    store<16>(to + (4 * q + 3) * side, reinterpret_cast<Pairs>(__builtin_shuffle(s1, s3, odd)));
  }
}

float* tile(char* to) { return reinterpret_cast<float*>(to); }

enum class Factor : uint8_t { left, right };

/// Packs lines [line, line + lines) and `depth` terms from `term` on as strips of 32 lines. A strip is [depth / 32,
/// rounded up][2 tiles].
template <Factor factor, bool contiguous>
void pack(char* to, const Lines& from, int64_t line, int64_t lines, int64_t term, int64_t depth) {
  constexpr bool transposed = contiguous == (factor == Factor::right);
  const int64_t strip_bytes = round_up(depth, terms) * strip * 2;
  const auto step = [&](char* at, int64_t l, int64_t k) {
    const int64_t lines_here = min(lines - l, strip), some = min(depth - k, terms);
    const bool whole = lines_here == strip && some == terms;
    if constexpr (contiguous && transposed) {
      if (whole) {
        transpose_from(tile(at), from.at(line + l, term + k), from.stride * 2);
        transpose_from(tile(at + tile_bytes), from.at(line + l + side, term + k), from.stride * 2);
        return;
      }
    }
    alignas(64) float buffer[2 * side * side];
    float* rows = transposed ? buffer : tile(at);
    if (!contiguous && whole) {
      pair_all_lines(rows, from, line + l, term + k);
    } else {
      const auto load = contiguous ? copy_lines : pair_lines;
      load(rows, from, line + l, lines_here, term + k, some);
      load(rows + side * side, from, line + l + side, lines_here - side, term + k, some);
    }
    if constexpr (transposed) {
      transpose_from(tile(at), buffer, 64);
      transpose_from(tile(at + tile_bytes), buffer + side * side, 64);
    }
  };
  // Copies in the order of memory, which makes the hardware prefetcher effective.
  if constexpr (contiguous) {
    for (int64_t l = 0; l < lines; l += strip)
      for (int64_t k = 0; k < depth; k += terms) step(to + l / strip * strip_bytes + k / terms * step_bytes, l, k);
  } else {
    for (int64_t k = 0; k < depth; k += terms)
      for (int64_t l = 0; l < lines; l += strip) step(to + l / strip * strip_bytes + k / terms * step_bytes, l, k);
  }
}

template <Factor factor>
void pack(char* to, const Lines& from, int64_t line, int64_t lines, int64_t term, int64_t depth) {
  if (from.contiguous)
    pack<factor, true>(to, from, line, lines, term, depth);
  else
    pack<factor, false>(to, from, line, lines, term, depth);
}

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
