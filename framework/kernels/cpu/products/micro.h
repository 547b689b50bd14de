// The innermost loops of products. They copy operands into panels and multiply panels in registers. Only files that
// hexad_isa_objects compiles include this file, so everything has internal linkage.
#pragma once

#include "framework/kernels/cpu/products/vector.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

#ifdef __AVX512F__
constexpr int mr = 14;  // rows multiplied at a time; their sums occupy 28 of 32 registers
#else
constexpr int mr = 6;  // rows multiplied at a time; their sums occupy 12 of 16 registers
#endif
template <class T>
constexpr int nr = 2 * lanes<T>;

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/// Integer type with the width of T, for the indices of shuffles.
template <class T>
struct IndexOf;
template <>
struct IndexOf<float> {
  using type = int32_t;
};
template <>
struct IndexOf<double> {
  using type = int64_t;
};
/// Transposes rows[0 .. lanes) with log2(lanes) perfect shuffles.
template <class T>
void transpose(V<T>* rows) {
  constexpr int n = lanes<T>;
  V<typename IndexOf<T>::type> low, high;
  for (int i = 0; i < n; ++i) {
    low[i] = i / 2 + (i % 2) * n;
    high[i] = low[i] + n / 2;
  }
  for (int stage = 1; stage < n; stage *= 2) {
    V<T> next[n];
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + n / 2], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + n / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
}

/// Copies columns j < count of from[k * along + j] to panels [depth][width], which are `panel` elements apart. The last
/// panel is padded with zeros. Each row of a full panel is copied as two vectors of `part` elements. The vectors
/// overlap if width < 2 * part.
template <int width, int part, class T, class In>
void pack_panels(T* to, int64_t panel, const In* from, int64_t along, int64_t count, int64_t depth) {
  static_assert(part <= width && width <= 2 * part);
  for (int64_t k = 0; k < depth; ++k, to += width, from += along) {
    T* row = to;
    int64_t j = 0;
    for (; j + width <= count; j += width, row += panel) {
      store<part>(row, widen<part>(from + j));
      store<part>(row + width - part, widen<part>(from + j + width - part));
    }
    if (j == count) continue;
    for (int i = 0; i < width; ++i) row[i] = j + i < count ? widen_one(from + j + i) : T(0);
  }
}

/// Copies the transpose: to[k, j] = from[j * across + k] for j < count, with rows of nr elements in `to`. The other
/// elements of a row are set to zero.
template <class T, class In>
void pack_transposed(T* to, const In* from, int64_t across, int64_t count, int64_t depth) {
  constexpr int n = lanes<T>;
  for (int first = 0; first < nr<T>; first += n) {
    int64_t k = 0;
    if (first + n <= count) {
      for (; k + n <= depth; k += n) {
        V<T> block[n];
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j) block[j] = widen<n>(from + (first + j) * across + k);
        transpose<T>(block);
#pragma GCC unroll 16
        for (int j = 0; j < n; ++j) store<n>(to + (k + j) * nr<T> + first, block[j]);
      }
    }
    for (; k < depth; ++k)
      for (int j = first; j < first + n; ++j) to[k * nr<T> + j] = j < count ? widen_one(from + j * across + k) : T(0);
  }
}

/// Copies to[i, k] = from[i * across + k] for i < count <= mr, with rows of `row` elements in `to`. The other rows are
/// set to zero.
template <int64_t row, class T, class In>
void pack_along(T* to, const In* from, int64_t across, int64_t count, int64_t depth) {
  for (int64_t i = 0; i < mr; ++i, to += row, from += across) {
    int64_t k = 0;
    if (i < count) {
      for (; k + lanes<T> <= depth; k += lanes<T>) store<lanes<T>>(to + k, widen<lanes<T>>(from + k));
      for (; k < depth; ++k) to[k] = widen_one(from + k);
    } else {
      for (; k < depth; ++k) to[k] = T(0);
    }
  }
}

enum class Put { sums, replace, add };

/// Computes c[height, nr] = a[height, depth] b[depth, nr], or adds the product to `c`. Element (i, k) of `a` is at i *
/// row + k * term. `b` is a panel of aligned rows of nr elements. If `how` is `sums`, `c` is not prefetched, because it
/// was used recently.
template <int height, class T, int64_t row, int64_t term, Put how>
__attribute__((noinline)) void multiply_rows(T* c, int64_t stride, const T* a, const T* b, int64_t depth) {
  constexpr int n = lanes<T>;
  if constexpr (how != Put::sums) {
    for (int i = 0; i < height; ++i) {
      __builtin_prefetch(c + i * stride, 1);
      __builtin_prefetch(c + i * stride + n, 1);
    }
  }
  V<T> sum[height][2] = {};
  for (int64_t k = 0; k < depth; ++k, a += term, b += nr<T>) {
    const V<T> b0 = *reinterpret_cast<const V<T>*>(b), b1 = *reinterpret_cast<const V<T>*>(b + n);
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      const V<T> ai = a[i * row] - V<T>{};
      sum[i][0] += ai * b0;
      sum[i][1] += ai * b1;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i, c += stride) {
    store<n>(c, how == Put::add ? load<n>(c) + sum[i][0] : sum[i][0]);
    store<n>(c + n, how == Put::add ? load<n>(c + n) + sum[i][1] : sum[i][1]);
  }
}

/// Computes at least the first `rows` of the product's mr rows.
template <class T, int64_t row, int64_t term, Put how>
void multiply(T* c, int64_t stride, const T* a, const T* b, int64_t depth, int64_t rows) {
  if (rows > mr / 2)
    multiply_rows<mr, T, row, term, how>(c, stride, a, b, depth);
  else
    multiply_rows<mr / 2, T, row, term, how>(c, stride, a, b, depth);
}

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
