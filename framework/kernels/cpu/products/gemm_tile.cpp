#include "framework/kernels/cpu/products/gemm_tile.h"

#include "framework/kernels/cpu/products/vector.h"

// Goto & van de Geijn 2008: blocks of a and b are copied ("packed") so that the innermost loop reads both in order; it
// keeps mr x nr sums in registers. bf16 becomes f32 while it is packed. Compiled for each instruction set: everything
// but the entry has internal linkage.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

using base::Dtype;

#ifdef __AVX512F__
constexpr int mr = 14;  // 28 of 32 registers hold sums
#else
constexpr int mr = 6;  // 12 of 16
#endif
template <class T>
constexpr int nr = 2 * lanes<T>;
/// Two overlapping vectors of `part` elements cover a row of mr.
constexpr int part = vector_bytes / 8, second_part = mr - part;
static_assert(part <= mr && mr <= 2 * part);
static_assert(gemm_rows % mr == 0 && gemm_columns % nr<float> == 0 && gemm_columns % nr<double> == 0);

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/// Integers as wide as T, for shuffles.
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
/// rows[0 .. lanes) becomes its transpose: log2(lanes) perfect shuffles.
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

/// to[k, j] (rows of nr) = from[k * along + j], j < count <= nr; further columns become zero.
template <class T, class In>
void pack_columns(T* to, const In* from, int64_t along, int64_t count, int64_t depth) {
  for (int64_t k = 0; k < depth; ++k, to += nr<T>, from += along) {
    if (count == nr<T>) {
      store<lanes<T>>(to, widen<lanes<T>>(from));
      store<lanes<T>>(to + lanes<T>, widen<lanes<T>>(from + lanes<T>));
    } else {
      for (int64_t j = 0; j < nr<T>; ++j) to[j] = j < count ? widen_one(from + j) : T(0);
    }
  }
}

/// The same for rows of a: to[k, i] (rows of mr) = from[k * along + i], i < count <= mr. A row is two overlapping
/// vectors.
template <class T, class In>
void pack_rows(T* to, const In* from, int64_t along, int64_t count, int64_t depth) {
  for (int64_t k = 0; k < depth; ++k, to += mr, from += along) {
    if (count == mr) {
      store<part>(to, widen<part>(from));
      store<part>(to + second_part, widen<part>(from + second_part));
    } else {
      for (int64_t i = 0; i < mr; ++i) to[i] = i < count ? widen_one(from + i) : T(0);
    }
  }
}

/// to[k, j] (rows of nr) = from[j * across + k]: a transposing copy.
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

/// to[i, k] (rows of gemm_depth) = from[i * across + k], i < count <= mr; further rows become zero.
template <class T, class In>
void pack_along(T* to, const In* from, int64_t across, int64_t count, int64_t depth) {
  for (int64_t i = 0; i < mr; ++i, to += gemm_depth, from += across) {
    int64_t k = 0;
    if (i < count) {
      for (; k + lanes<T> <= depth; k += lanes<T>) store<lanes<T>>(to + k, widen<lanes<T>>(from + k));
      for (; k < depth; ++k) to[k] = widen_one(from + k);
    } else {
      for (; k < depth; ++k) to[k] = T(0);
    }
  }
}

/// Rows [i, i + rows) and terms [k, k + depth) of a, as panels of mr rows: [mr][gemm_depth] when a's terms are
/// contiguous, [depth][mr] when its rows are.
template <class T, class In>
void pack_a(T* to, const Operand& a, int64_t i, int64_t rows, int64_t k, int64_t depth) {
  const In* from = static_cast<const In*>(a.data) + i * a.row + k * a.column;
  for (int64_t r = 0; r < rows; r += mr, to += mr * gemm_depth, from += mr * a.row) {
    if (a.column == 1)
      pack_along<T, In>(to, from, a.row, min(mr, rows - r), depth);
    else
      pack_rows<T, In>(to, from, a.column, min(mr, rows - r), depth);
  }
}

/// Terms [k, k + depth) and columns [j, j + columns) of b, as panels [depth][nr].
template <class T, class In>
void pack_b(T* to, const Operand& b, int64_t k, int64_t depth, int64_t j, int64_t columns) {
  const In* from = static_cast<const In*>(b.data) + k * b.row + j * b.column;
  for (int64_t c = 0; c < columns; c += nr<T>, to += nr<T> * depth, from += nr<T> * b.column) {
    if (b.column == 1)
      pack_columns<T, In>(to, from, b.row, min(nr<T>, columns - c), depth);
    else
      pack_transposed<T, In>(to, from, b.column, min(nr<T>, columns - c), depth);
  }
}

enum class Put { sums, replace, add };

/// c[mr, nr] = or += panel of a times panel of b; `sums` is a c of its own with rows of nr, aligned.
template <class T, bool a_along, Put how>
__attribute__((noinline)) void multiply(T* c, int64_t stride, const T* a, const T* b, int64_t depth) {
  constexpr int64_t row = a_along ? gemm_depth : 1, term = a_along ? 1 : mr;
  constexpr int n = lanes<T>;
  if constexpr (how != Put::sums) {
    for (int i = 0; i < mr; ++i) {
      __builtin_prefetch(c + i * stride, 1);
      __builtin_prefetch(c + i * stride + n, 1);
    }
  }
  V<T> sum[mr][2] = {};
  for (int64_t k = 0; k < depth; ++k, a += term, b += nr<T>) {
    const V<T> b0 = *reinterpret_cast<const V<T>*>(b), b1 = *reinterpret_cast<const V<T>*>(b + n);
#pragma GCC unroll 16
    for (int i = 0; i < mr; ++i) {
      const V<T> ai = a[i * row] - V<T>{};
      sum[i][0] += ai * b0;
      sum[i][1] += ai * b1;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < mr; ++i, c += stride) {
    store<n>(c, how == Put::add ? load<n>(c) + sum[i][0] : sum[i][0]);
    store<n>(c + n, how == Put::add ? load<n>(c + n) + sum[i][1] : sum[i][1]);
  }
}

/// The valid part of sums goes to, or is added to, c.
template <class T>
void put(T* c, int64_t stride, const T* sums, int64_t rows, int64_t columns, bool add) {
  for (int64_t i = 0; i < rows; ++i, c += stride, sums += nr<T>)
    for (int64_t j = 0; j < columns; ++j) c[j] = add ? c[j] + sums[j] : sums[j];
}

void put_bf16(uint16_t* c, int64_t stride, const float* sums, int64_t sums_stride, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, c += stride, sums += sums_stride)
    for (int64_t j = 0; j < columns; ++j) narrow_one(c + j, sums[j]);
}

template <class T, class A, class B>
void run(const GemmTile& t, T* packed_a, T* packed_b, T* sums, T* whole) {
  const bool narrow = t.c.dtype == Dtype::bf16, one_block = t.k <= gemm_depth, along = t.a.column == 1;
  T* c = narrow ? whole : static_cast<T*>(t.c.data);
  const int64_t stride = narrow ? t.n : t.c.stride;
  for (int64_t j = 0; j < t.n; j += gemm_columns) {
    const int64_t columns = min(gemm_columns, t.n - j);
    for (int64_t k = 0; k < t.k; k += gemm_depth) {
      const int64_t depth = min(gemm_depth, t.k - k);
      pack_b<T, B>(packed_b, t.b, k, depth, j, columns);
      for (int64_t i = 0; i < t.m; i += gemm_rows) {
        const int64_t rows = min(gemm_rows, t.m - i);
        pack_a<T, A>(packed_a, t.a, i, rows, k, depth);
        for (int64_t jj = 0; jj < columns; jj += nr<T>) {
          for (int64_t ii = 0; ii < rows; ii += mr) {
            const T *pa = packed_a + ii * gemm_depth, *pb = packed_b + jj * depth;
            T* to = c + (i + ii) * stride + j + jj;
            const int64_t valid_rows = min(mr, rows - ii), valid_columns = min(nr<T>, columns - jj);
            const bool whole_block = valid_rows == mr && valid_columns == nr<T>, add = t.add || k > 0;
            if (whole_block && !(narrow && one_block)) {
              if (add)
                (along ? multiply<T, true, Put::add> : multiply<T, false, Put::add>)(to, stride, pa, pb, depth);
              else
                (along ? multiply<T, true, Put::replace> : multiply<T, false, Put::replace>)(to, stride, pa, pb, depth);
              continue;
            }
            (along ? multiply<T, true, Put::sums> : multiply<T, false, Put::sums>)(sums, nr<T>, pa, pb, depth);
            if constexpr (sizeof(T) == 4) {
              if (narrow && one_block) {
                put_bf16(static_cast<uint16_t*>(t.c.data) + (i + ii) * t.c.stride + j + jj, t.c.stride, sums, nr<T>,
                         valid_rows, valid_columns);
                continue;
              }
            }
            put(to, stride, sums, valid_rows, valid_columns, add);
          }
        }
      }
    }
  }
  if constexpr (sizeof(T) == 4) {
    if (narrow && !one_block) put_bf16(static_cast<uint16_t*>(t.c.data), t.c.stride, whole, t.n, t.m, t.n);
  }
}

}  // namespace

void gemm_tile(const GemmTile& t, void* scratch) {
  const bool wide = t.a.dtype == Dtype::f64;
  const int64_t size = wide ? 8 : 4;
  char* packed_a = static_cast<char*>(scratch);
  char* packed_b = packed_a + gemm_rows * gemm_depth * size;
  char* sums = packed_b + gemm_columns * gemm_depth * size;
  char* whole = sums + mr * nr<float> * 8;
  const auto go = [&]<class T, class A, class B>() {
    run<T, A, B>(t, reinterpret_cast<T*>(packed_a), reinterpret_cast<T*>(packed_b), reinterpret_cast<T*>(sums),
                 reinterpret_cast<T*>(whole));
  };
  const bool a16 = t.a.dtype == Dtype::bf16, b16 = t.b.dtype == Dtype::bf16;
  if (wide)
    go.operator()<double, double, double>();
  else if (a16 && b16)
    go.operator()<float, uint16_t, uint16_t>();
  else if (a16)
    go.operator()<float, uint16_t, float>();
  else if (b16)
    go.operator()<float, float, uint16_t>();
  else
    go.operator()<float, float, float>();
}

}  // namespace hexad::kernels::cpu::HEXAD_ISA
