#include "framework/kernels/cpu/products/gemm_tile.h"

#include "framework/kernels/cpu/products/ahead.h"
#include "framework/kernels/cpu/products/micro.h"

// Method of Goto & van de Geijn 2008: blocks of `a` and `b` are copied ("packed") into the order in which the innermost
// loop reads them. This loop keeps mr x nr sums in registers. Packing converts bf16 to f32. This file is compiled once
// for each instruction set, so everything except the entry function has internal linkage.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

using base::Dtype;
static_assert(gemm_rows % mr == 0 && gemm_columns % nr<float> == 0 && gemm_columns % nr<double> == 0);

/// Packs rows [i, i + rows) and terms [k, k + depth) of `a` as panels of mr rows. A panel is [mr][gemm_depth] if the
/// terms of a row are contiguous, and [depth][mr] if the rows of a term are contiguous.
template <class T, class In>
void pack_a(T* to, const Operand& a, int64_t i, int64_t rows, int64_t k, int64_t depth) {
  const In* from = static_cast<const In*>(a.data) + i * a.row + k * a.column;
  if (a.column != 1) return pack_panels<mr, vector_bytes / 8>(to, mr * gemm_depth, from, a.column, rows, depth);
  for (int64_t r = 0; r < rows; r += mr)
    pack_along<gemm_depth>(to + r * gemm_depth, from + r * a.row, a.row, min(mr, rows - r), depth);
}

/// Packs terms [k, k + depth) and columns [j, j + columns) of b as panels [depth][nr].
template <class T, class In>
void pack_b(T* to, const Operand& b, int64_t k, int64_t depth, int64_t j, int64_t columns) {
  const In* from = static_cast<const In*>(b.data) + k * b.row + j * b.column;
  if (b.column == 1) return pack_panels<nr<T>, lanes<T>>(to, nr<T> * depth, from, b.row, columns, depth);
  for (int64_t c = 0; c < columns; c += nr<T>)
    pack_transposed(to + c * depth, from + c * b.column, b.column, min(nr<T>, columns - c), depth);
}

/// Division of k into blocks of nearly equal size.
struct Depths {
  int64_t k, blocks;
  explicit Depths(int64_t terms) : k(terms), blocks(terms <= gemm_depth ? 1 : (terms + gemm_chain / 2) / gemm_chain) {}
  int64_t begin(int64_t block) const { return k * block / blocks; }
  int64_t size(int64_t block) const { return begin(block + 1) - begin(block); }
};

template <class T, class A, class B>
struct Product {
  const GemmTile& t;
  const GemmTile* next;
  T *packed_a, *packed_b, *sums, *whole;
  Depths depths{t.k};
  bool narrow = t.c.dtype == Dtype::bf16;
  bool rounded_at_once = narrow && depths.blocks == 1;  // true for a bf16 result that needs no sums in `whole`

  void run() const {
    for (int64_t j = 0; j < t.n; j += gemm_columns)
      for (int64_t d = 0; d < depths.blocks; ++d) multiply_block(d, j, min(gemm_columns, t.n - j));
    if constexpr (sizeof(T) == 4) {
      if (narrow && !rounded_at_once) put(static_cast<uint16_t*>(t.c.data), t.c.stride, whole, t.n, t.m, t.n, false);
    }
  }

  void multiply_block(int64_t d, int64_t j, int64_t columns) const {
    const int64_t k = depths.begin(d), depth = depths.size(d), panels = (columns + nr<T> - 1) / nr<T>;
    pack_b<T, B>(packed_b, t.b, k, depth, j, columns);
    Ahead ahead = block_after(d, j, panels * ((t.m + mr - 1) / mr));
    for (int64_t i = 0; i < t.m; i += gemm_rows) {
      const int64_t rows = min(gemm_rows, t.m - i);
      pack_a<T, A>(packed_a, t.a, i, rows, k, depth);
      for (int64_t jj = 0; jj < columns; jj += nr<T>) {
        for (int64_t ii = 0; ii < rows; ii += mr) {
          ahead.step();
          multiply_panels(i + ii, min(mr, rows - ii), j + jj, min(nr<T>, columns - jj), packed_a + ii * gemm_depth,
                          packed_b + jj * depth, depth, t.add || d > 0);
        }
      }
    }
  }

  Ahead block_after(int64_t d, int64_t j, int64_t steps) const {
    if (d + 1 < depths.blocks)
      return {t.b, depths.begin(d + 1), depths.size(d + 1), j, min(gemm_columns, t.n - j), steps};
    const int64_t c = j + gemm_columns;
    if (c < t.n) return {t.b, 0, depths.size(0), c, min(gemm_columns, t.n - c), steps};
    return next ? Ahead(next->b, 0, Depths(next->k).size(0), 0, min(gemm_columns, next->n), steps) : Ahead();
  }

  /// Multiplies a panel of `a` by a panel of `b`. Writes the product to `rows` x `columns` elements of the result,
  /// starting at (i, j). If `add` is true, adds the product to these elements instead.
  void multiply_panels(int64_t i, int64_t rows, int64_t j, int64_t columns, const T* a, const T* b, int64_t depth,
                       bool add) const {
    T* c = (narrow ? whole : static_cast<T*>(t.c.data)) + i * c_stride() + j;
    if (rows == mr && columns == nr<T> && !rounded_at_once) {
      if (add)
        multiply_along<Put::add>(c, c_stride(), a, b, depth, rows);
      else
        multiply_along<Put::replace>(c, c_stride(), a, b, depth, rows);
      return;
    }
    multiply_along<Put::sums>(sums, nr<T>, a, b, depth, rows);
    if constexpr (sizeof(T) == 4) {
      if (rounded_at_once) {
        put(static_cast<uint16_t*>(t.c.data) + i * t.c.stride + j, t.c.stride, sums, nr<T>, rows, columns, false);
        return;
      }
    }
    put(c, c_stride(), sums, nr<T>, rows, columns, add);
  }

  template <Put how>
  void multiply_along(T* c, int64_t stride, const T* a, const T* b, int64_t depth, int64_t rows) const {
    if (t.a.column == 1)
      multiply<T, gemm_depth, 1, how>(c, stride, a, b, depth, rows);
    else
      multiply<T, 1, mr, how>(c, stride, a, b, depth, rows);
  }

  int64_t c_stride() const { return narrow ? t.n : t.c.stride; }

  /// Writes the first `columns` sums of each of `rows` rows to c, or adds them to c if `add` is true.
  template <class Out>
  static void put(Out* c, int64_t stride, const T* from, int64_t from_stride, int64_t rows, int64_t columns, bool add) {
    for (int64_t i = 0; i < rows; ++i, c += stride, from += from_stride)
      for (int64_t j = 0; j < columns; ++j) narrow_one(c + j, add ? widen_one(c + j) + from[j] : from[j]);
  }
};

}  // namespace

void gemm_tile(const GemmTile& t, const GemmTile* next, void* scratch) {
  const bool wide = t.a.dtype == Dtype::f64;
  const int64_t size = wide ? 8 : 4;
  char* packed_a = static_cast<char*>(scratch);
  char* packed_b = packed_a + gemm_rows * gemm_depth * size;
  char* sums = packed_b + gemm_columns * gemm_depth * size;
  char* whole = sums + mr * nr<float> * 8;
  const auto go = [&]<class T, class A, class B>() {
    Product<T, A, B>{t,
                     next,
                     reinterpret_cast<T*>(packed_a),
                     reinterpret_cast<T*>(packed_b),
                     reinterpret_cast<T*>(sums),
                     reinterpret_cast<T*>(whole)}
        .run();
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
