#include "framework/kernels/cpu/products/gemm_tile.h"

#include "framework/kernels/cpu/products/micro.h"

// Goto & van de Geijn 2008: blocks of a and b are copied ("packed") so that the innermost loop reads both in order; it
// keeps mr x nr sums in registers. bf16 becomes f32 while it is packed. Compiled for each instruction set: everything
// but the entry has internal linkage.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

using base::Dtype;
static_assert(gemm_rows % mr == 0 && gemm_columns % nr<float> == 0 && gemm_columns % nr<double> == 0);

/// Rows [i, i + rows) and terms [k, k + depth) of a, as panels of mr rows: [mr][gemm_depth] when a's terms are
/// contiguous, [depth][mr] when its rows are.
template <class T, class In>
void pack_a(T* to, const Operand& a, int64_t i, int64_t rows, int64_t k, int64_t depth) {
  const In* from = static_cast<const In*>(a.data) + i * a.row + k * a.column;
  for (int64_t r = 0; r < rows; r += mr, to += mr * gemm_depth, from += mr * a.row) {
    if (a.column == 1)
      pack_along<gemm_depth, T, In>(to, from, a.row, min(mr, rows - r), depth);
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
                (along ? multiply<T, gemm_depth, 1, Put::add> : multiply<T, 1, mr, Put::add>)(to, stride, pa, pb,
                                                                                              depth);
              else
                (along ? multiply<T, gemm_depth, 1, Put::replace> : multiply<T, 1, mr, Put::replace>)(to, stride, pa,
                                                                                                      pb, depth);
              continue;
            }
            (along ? multiply<T, gemm_depth, 1, Put::sums> : multiply<T, 1, mr, Put::sums>)(sums, nr<T>, pa, pb, depth);
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
