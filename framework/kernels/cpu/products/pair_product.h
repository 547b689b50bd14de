// One tile of a bf16 product: its division into blocks that fit in caches, and the work that is done while blocks are
// multiplied. The unit that multiplies is a template parameter. Only files that hexad_isa_objects compiles include this
// file, so everything has internal linkage.
#pragma once

#include "framework/kernels/cpu/products/ahead.h"
#include "framework/kernels/cpu/products/pair_tile.h"
#include "framework/kernels/cpu/products/pairs.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

/// A block of 32 x 32 sums in memory, with rows `stride` elements apart.
struct Sums {
  float* data;
  int64_t stride;
};

/// Rounds a block of sums to a bf16 result, one row per call of step().
struct Rounding {
  uint16_t* to = nullptr;
  int64_t stride = 0, rows = 0;
  __mmask32 columns = 0;
  const float* from = nullptr;

  void step() {
    if (rows == 0) return;
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_load_ps(from + side), _mm512_load_ps(from));
    _mm512_mask_storeu_epi16(to, columns, reinterpret_cast<const __m512i&>(both));
    to += stride, from += strip, --rows;
  }
};

/// Thirty-two rows of `a`, packed or at their original address.
struct Strip {
  const char* data;
  int64_t row, step;  // bytes between rows, and bytes between steps of 32 terms
};

/// Operands of one multiplication: the first `rows` of 32 rows of `a`, 32 packed columns of `b`, and `depth` terms per
/// sum. All 32 rows and whole steps of 32 terms may be read, because missing elements were packed as zeros.
struct Factors {
  Strip a;
  const char* b;
  int64_t depth, rows;

  int64_t steps() const { return (depth + terms - 1) / terms; }
};

/// Part of the result that is accessed next: two cache lines in each of 32 rows. The lines are prefetched into the
/// second-level cache. In the first-level cache, rows whose distance is a power of two would evict each other.
struct Near {
  const char* data = nullptr;
  int64_t stride = 0;  // distance between rows, in bytes

  void step() {
    _mm_prefetch(data, _MM_HINT_T1);
    _mm_prefetch(data + 64, _MM_HINT_T1);
    data += stride;
  }
};

/// Work that is done while strips are multiplied. It is spread over the steps of 32 terms, because all the work at once
/// would stall the multiplications.
class InterleavedWork {
 public:
  Rounding rounding;
  Ahead a, b;  // prefetches of the operands that are needed next

  /// Prepares the work of `steps` steps. `near.data` may be null.
  void begin(int64_t steps, const Near& near) {
    near_ = near;
    rounded_per_step_ = (rounding.rows + steps - 1) / steps;
    near_per_step_ = near.data ? (strip + steps - 1) / steps : 0;
  }
  void step() {
    a.step();
    b.step();
    for (int64_t r = 0; r < rounded_per_step_; ++r) rounding.step();
    for (int64_t r = 0; r < near_per_step_; ++r) near_.step();
  }

 private:
  Near near_;
  int64_t rounded_per_step_ = 0, near_per_step_ = 0;
};

void copy(float* to, int64_t to_stride, const float* from, int64_t from_stride, int64_t rows, int64_t columns) {
  const __mmask16 low = first16(columns), high = first16(columns - side);
  for (int64_t i = 0; i < rows; ++i, to += to_stride, from += from_stride) {
    _mm512_mask_storeu_ps(to, low, _mm512_maskz_loadu_ps(low, from));
    _mm512_mask_storeu_ps(to + side, high, _mm512_maskz_loadu_ps(high, from + side));
  }
}

/// Position of a block of terms in the sums: `first` and `last` are true for the first and the last block.
struct TermBlock {
  bool first, last;
};

/// Computes the product of a tile with `Unit`, which defines `PairBlocks blocks` and `void multiply(to, from, factors,
/// interleaved)`. multiply() must compute to = from + a b for at least the requested rows. If from.data is null, it
/// must compute to = a b. It must call interleaved.step() once for each step of the factors.
template <class Unit>
struct Product {
  static constexpr PairBlocks blocks = Unit::blocks;
  const GemmTile& t;
  const GemmTile* next;
  char *left, *right;  // packed operands a and b
  float* corner;       // 32 x 32 sums
  float* partial;      // sums of a bf16 result with more than one block of terms
  bool narrowed = t.c.dtype == base::Dtype::bf16;
  bool one_depth = t.k <= blocks.depth;
  Lines a = rows_of(t.a), b = columns_of(t.b);
  InterleavedWork interleaved = {};

  void run() {
    const int64_t columns = columns_of_block(t);
    const int64_t rows = one_depth || !narrowed ? t.m : blocks.partial / columns / strip * strip;
    for (int64_t i = 0; i < t.m; i += rows)
      for (int64_t j = 0; j < t.n; j += columns)
        for (int64_t k = 0; k < t.k; k += blocks.depth)
          multiply_block(i, min(rows, t.m - i), j, min(columns, t.n - j), k, min(blocks.depth, t.k - k));
    while (interleaved.rounding.rows > 0) interleaved.rounding.step();
  }

  /// Returns the maximum number of columns of `b` that are packed at a time. The maximum is twice as large if the rows
  /// of `a` are not contiguous, because `a` may then be packed again for each block of columns.
  static int64_t columns_of_block(const GemmTile& t) {
    const int64_t depth = round_up(min(t.k, blocks.depth), terms);
    return min(round_up(t.n, strip), blocks.right / (rows_of(t.a).contiguous ? 2 : 1) / depth / strip * strip);
  }

  void multiply_block(int64_t i, int64_t rows, int64_t j, int64_t columns, int64_t k, int64_t depth) {
    pack<Factor::right>(right, b, j, columns, k, depth);
    const int64_t steps = (depth + terms - 1) / terms, strip_bytes = steps * step_bytes;
    const int64_t padded = round_up(columns, strip), strips = (rows + strip - 1) / strip;
    interleaved.b = block_after(i + rows < t.m, j, k, strips * padded / strip * steps);
    // If the rows of `a` are contiguous, strips of 32 rows with whole steps of terms are read in place. All other
    // strips are packed, because the unit reads 32 rows and whole steps.
    const int64_t in_place = a.contiguous && depth % terms == 0 ? rows / strip * strip : 0;
    const int64_t group = blocks.left / (steps * terms) / strip * strip;  // maximum number of rows packed at a time
    const bool kept =
        one_depth && rows - in_place <= group && j > 0;  // true if the rows are still packed from the previous columns
    for (int64_t r = 0; r < rows; r += strip) {
      Strip x{reinterpret_cast<const char*>(a.at(i + r, k)), a.stride * 2, terms * 2};
      const int64_t at = r < in_place ? 0 : (r - in_place) % group;
      if (r >= in_place) {
        if (at == 0 && !kept) pack<Factor::left>(left, a, i + r, min(group, rows - r), k, depth);
        x = {left + at / strip * strip_bytes, 64, step_bytes};
      }
      const int64_t here = r < in_place ? strip : group;  // number of rows after which the next part of `a` is needed
      if (at == 0)
        interleaved.a = rows_after(i + r + here, here, k, depth,
                                   (min(here, rows - r) + strip - 1) / strip * (padded / strip) * steps);
      float* sums = partial + (one_depth ? 0 : r * padded);
      for (int64_t c = 0; c < columns; c += strip) {
        const Factors factors{x, right + c / strip * strip_bytes, depth, min(strip, rows - r)};
        multiply_strips(i + r, j + c, min(strip, columns - c), factors, {k == 0, k + depth == t.k}, {sums + c, padded});
      }
    }
  }

  /// Returns a prefetch, spread over `steps` steps, of up to `rows` rows of operand `a` from row `i` on. After the last
  /// row of the tile, the prefetch is for the first rows of the next tile, if any.
  Ahead rows_after(int64_t i, int64_t rows, int64_t k, int64_t depth, int64_t steps) const {
    if (i < t.m) return Ahead(t.a, i, min(rows, t.m - i), k, depth, steps);
    return next ? Ahead(next->a, 0, min(rows, next->m), 0, min(blocks.depth, next->k), steps) : Ahead();
  }

  Ahead block_after(bool more_rows, int64_t j, int64_t k, int64_t steps) const {
    const auto block = [steps](const GemmTile& p, int64_t k0, int64_t j0) {
      return Ahead(p.b, k0, min(blocks.depth, p.k - k0), j0, min(columns_of_block(p), p.n - j0), steps);
    };
    if (k + blocks.depth < t.k) return block(t, k + blocks.depth, j);
    if (j + columns_of_block(t) < t.n) return block(t, 0, j + columns_of_block(t));
    if (more_rows) return block(t, 0, 0);
    return next ? block(*next, 0, 0) : Ahead();
  }

  /// Computes 32 x 32 elements of c, starting at (i, j), for a block of terms. Only factors.rows x columns of these
  /// elements exist.
  void multiply_strips(int64_t i, int64_t j, int64_t columns, const Factors& factors, TermBlock block,
                       const Sums& sums) {
    char* const at = static_cast<char*>(t.c.data) + (i * t.c.stride + j) * (narrowed ? 2 : 4);
    if (narrowed) {
      const Sums from{block.first ? nullptr : sums.data, sums.stride};
      if (!block.last) return multiply(sums, from, factors, {});
      // `corner` may still contain the previous sums. The steps of this multiplication round the previous sums before
      // the new sums are stored.
      multiply({corner, strip}, from, factors, {at, t.c.stride * 2});
      interleaved.rounding = {reinterpret_cast<uint16_t*>(at), t.c.stride, factors.rows, first(columns), corner};
      return;
    }
    float* c = reinterpret_cast<float*>(at);
    const bool add = t.add || !block.first;
    if (factors.rows == strip && columns == strip) {
      const Near near = add && j + 2 * strip <= t.n ? Near{at + strip * 4, t.c.stride * 4} : Near{};
      multiply({c, t.c.stride}, {add ? c : nullptr, t.c.stride}, factors, near);
      return;
    }
    if (add) copy(corner, strip, c, t.c.stride, factors.rows, columns);
    multiply({corner, strip}, {add ? corner : nullptr, strip}, factors, {});
    copy(c, t.c.stride, corner, strip, factors.rows, columns);
  }

  /// Multiplies the factors. Prefetches `near` during the multiplication if near.data is not null.
  void multiply(const Sums& to, const Sums& from, const Factors& factors, const Near& near) {
    interleaved.begin(factors.steps(), near);
    Unit::multiply(to, from, factors, interleaved);
  }
};

template <class Unit>
void multiply_tile(const GemmTile& t, const GemmTile* next, void* scratch) {
  char* left = static_cast<char*>(scratch);
  char* right = left + Unit::blocks.left * 2;
  float* corner = reinterpret_cast<float*>(right + Unit::blocks.right * 2);
  Product<Unit>{t, next, left, right, corner, corner + strip * strip}.run();
}

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
