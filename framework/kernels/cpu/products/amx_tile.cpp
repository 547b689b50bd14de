#include "framework/kernels/cpu/products/amx_tile.h"

#include <immintrin.h>

#include "framework/kernels/cpu/products/ahead.h"
#include "framework/kernels/cpu/products/micro.h"

// Operands are copied ("packed") into tiles of 16 rows of 64 bytes, zeros beyond their edges; two by two tiles of sums
// stay in registers. A left tile holds [16 rows][16 pairs of terms], a right one [16 pairs of terms][16 columns]: as
// matrices of pairs one is the transpose of the other. Rows of a whose terms are contiguous are such tiles already and
// are read where they are. Everything but the entry has internal linkage.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

constexpr int64_t side = 16, terms = 32, tile_bytes = 1024;  // of a tile: rows, terms of a sum, size
constexpr int64_t strip = 2 * side;                          // rows or columns that are multiplied at once
constexpr int64_t step_bytes = 2 * tile_bytes;               // of a strip: 32 terms

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// GCC does not know what tile instructions read: without this it would drop or delay the stores before them.
inline void memory_is_up_to_date(const void* p) { asm volatile("" ::"r"(p) : "memory"); }

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

void configure_tiles() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
  memory_is_up_to_date(&config);
  _tile_loadconfig(&config);
}

/// The lines of an operand that a sum runs along: rows of a, columns of b. A line's terms or a term's lines are
/// contiguous; `stride` elements lie between the others.
struct Lines {
  const uint16_t* data;
  int64_t stride;
  bool contiguous;  // the terms of a line

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

/// Sixteen pairs of terms. Pairs go to memory as float, which is the size of one.
using Pairs = V<float>;

/// to[i] = the pairs of line i, for contiguous terms.
void copy_lines(float* to, const Lines& from, int64_t line, int64_t lines, int64_t term, int64_t depth) {
  const __mmask32 mask = first(depth);
  for (int i = 0; i < side; ++i, to += side)
    _mm512_store_si512(to, i < lines ? _mm512_maskz_loadu_epi16(mask, from.at(line + i, term)) : __m512i{});
}

/// to[i] = pair i of sixteen lines, for contiguous lines.
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

/// The same for 32 lines and 32 terms, in two tiles.
void pair_all_lines(float* to, const Lines& from, int64_t line, int64_t term) {
  using Quads = V<int64_t, 8>;
  using Words = V<uint16_t, 32>;
  // Lines 4 l .. 4 l + 3 and 16 + 4 l .. come to lie in the 128 bits l, where the two interleaving instructions want
  // them.
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

/// to = the transpose of 16 x 16 pairs in memory, rows `stride` bytes apart. A register takes the same 16 bytes of four
/// rows, four apart; the rest is exchanges inside 128 bits: half the shuffles that whole rows would need.
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

/// Lines [line, line + lines) and `depth` terms from `term` on, as strips of 32 lines: [depth / 32][2 tiles].
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
  // In the order of memory, which the processor's own prefetching follows.
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

/// Eight instructions that do nothing. Beside a busy hyperthread of the same core, tile instructions that follow each
/// other at once run at two thirds of the speed that they have with others between them; alone it makes no difference.
inline void gap() { asm volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop"); }

/// Sums in memory: 32 x 32, rows `stride` elements apart.
struct Sums {
  float* data;
  int64_t stride;
};

/// A block of sums on their way to a bf16 result, a row at a time.
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

/// Thirty-two lines of a: packed, or where they are.
struct Strip {
  const char* data;
  int64_t row, step;  // bytes from one line, and from 32 terms, to the next
};

/// Thirty-two rows of a result that are wanted soon: two lines of the cache each.
struct Near {
  const char* data = nullptr;
  int64_t stride = 0;  // bytes
};

/// What is done while tiles are multiplied, a little at every step: in one go it would stall.
struct Meanwhile {
  Rounding rounding;
  Ahead a, b;  // operands that are needed next
};

/// to = (from or zero) + a b over steps of 32 terms. Meanwhile brings `near`, if it is not null, into the second-level
/// cache (rows a power of two apart would push each other out of the first).
void multiply(const Sums& to, const Sums& from, const Strip& a, const char* b, int64_t steps, Near near,
              Meanwhile& meanwhile) {
  memory_is_up_to_date(from.data);
  if (from.data) {
    const auto bytes = static_cast<size_t>(from.stride) * sizeof(float);
    _tile_loadd(0, from.data, bytes);
    _tile_loadd(1, from.data + side, bytes);
    _tile_loadd(2, from.data + side * from.stride, bytes);
    _tile_loadd(3, from.data + side * from.stride + side, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const int64_t rounded_per_step = (meanwhile.rounding.rows + steps - 1) / steps;
  const int64_t rows_per_step = near.data ? (strip + steps - 1) / steps : 0;
  const char* upper = a.data;
  const char* lower = a.data + side * a.row;
  const auto a_row = static_cast<size_t>(a.row);
  for (int64_t i = 0; i < steps; ++i, upper += a.step, lower += a.step, b += step_bytes) {
    _tile_loadd(4, upper, a_row);
    gap();
    _tile_loadd(6, b, 64);
    gap();
    _tile_loadd(7, b + tile_bytes, 64);
    gap();
    _tile_loadd(5, lower, a_row);
    gap();
    _tile_dpbf16ps(0, 4, 6);
    gap();
    _tile_dpbf16ps(1, 4, 7);
    gap();
    _tile_dpbf16ps(2, 5, 6);
    gap();
    _tile_dpbf16ps(3, 5, 7);
    gap();
    meanwhile.a.step();
    meanwhile.b.step();
    for (int64_t r = 0; r < rounded_per_step; ++r) meanwhile.rounding.step();
    for (int64_t r = 0; r < rows_per_step; ++r, near.data += near.stride) {
      _mm_prefetch(near.data, _MM_HINT_T1);
      _mm_prefetch(near.data + 64, _MM_HINT_T1);
    }
  }
  const auto bytes = static_cast<size_t>(to.stride) * sizeof(float);
  _tile_stored(0, to.data, bytes);
  _tile_stored(1, to.data + side, bytes);
  _tile_stored(2, to.data + side * to.stride, bytes);
  _tile_stored(3, to.data + side * to.stride + side, bytes);
}

void copy(float* to, int64_t to_stride, const float* from, int64_t from_stride, int64_t rows, int64_t columns) {
  const __mmask16 low = first16(columns), high = first16(columns - side);
  for (int64_t i = 0; i < rows; ++i, to += to_stride, from += from_stride) {
    _mm512_mask_storeu_ps(to, low, _mm512_maskz_loadu_ps(low, from));
    _mm512_mask_storeu_ps(to + side, high, _mm512_maskz_loadu_ps(high, from + side));
  }
}

struct Product {
  const GemmTile& t;
  const GemmTile* next;
  char *left, *right;  // packed operands
  float* corners;      // 32 x 32 sums, twice
  float* partial;      // of a bf16 result with more than one block of terms
  bool narrowed = t.c.dtype == base::Dtype::bf16;
  bool one_depth = t.k <= block_depth;
  Lines a = rows_of(t.a), b = columns_of(t.b);
  Meanwhile meanwhile = {};
  bool other_corner = false;  // one is rounded while the other is computed

  void run() {
    const int64_t columns = columns_of_block(t);
    const int64_t rows = one_depth || !narrowed ? t.m : partial_elements / columns / strip * strip;
    for (int64_t i = 0; i < t.m; i += rows)
      for (int64_t j = 0; j < t.n; j += columns)
        for (int64_t k = 0; k < t.k; k += block_depth)
          multiply_block(i, min(rows, t.m - i), j, min(columns, t.n - j), k, min(block_depth, t.k - k));
    while (meanwhile.rounding.rows > 0) meanwhile.rounding.step();
  }

  /// Columns of b that are packed at once, at most. Twice as many where a is packed again for each of these blocks.
  static int64_t columns_of_block(const GemmTile& t) {
    const int64_t depth = round_up(min(t.k, block_depth), terms);
    return min(round_up(t.n, strip), right_elements / (rows_of(t.a).contiguous ? 2 : 1) / depth / strip * strip);
  }

  void multiply_block(int64_t i, int64_t rows, int64_t j, int64_t columns, int64_t k, int64_t depth) {
    pack<Factor::right>(right, b, j, columns, k, depth);
    const int64_t steps = (depth + terms - 1) / terms, strip_bytes = steps * step_bytes;
    const int64_t padded = round_up(columns, strip), strips = (rows + strip - 1) / strip;
    meanwhile.b = block_after(i + rows < t.m, j, k, strips * padded / strip * steps);
    const int64_t in_place = a.contiguous && depth % terms == 0 ? rows / strip * strip : 0;
    const int64_t group = left_elements / (steps * terms) / strip * strip;  // rows that are packed at once
    const bool kept = one_depth && rows - in_place <= group && j > 0;       // from the columns before
    for (int64_t r = 0; r < rows; r += strip) {
      Strip x{reinterpret_cast<const char*>(a.at(i + r, k)), a.stride * 2, terms * 2};
      const int64_t at = r < in_place ? 0 : (r - in_place) % group;
      if (r >= in_place) {
        if (at == 0 && !kept) pack<Factor::left>(left, a, i + r, min(group, rows - r), k, depth);
        x = {left + at / strip * strip_bytes, 64, step_bytes};
      }
      memory_is_up_to_date(left);
      const int64_t here = r < in_place ? strip : group;  // rows until a is needed again
      if (at == 0)
        meanwhile.a = rows_after(i + r + here, here, k, depth,
                                 (min(here, rows - r) + strip - 1) / strip * (padded / strip) * steps);
      float* sums = partial + (one_depth ? 0 : r * padded);
      for (int64_t c = 0; c < columns; c += strip) {
        multiply_strips(i + r, min(strip, rows - r), j + c, min(strip, columns - c), x, right + c / strip * strip_bytes,
                        k, depth, {sums + c, padded});
      }
    }
  }

  /// Up to `rows` rows of a from row i on, or the first ones of the next tile, within `steps` steps.
  Ahead rows_after(int64_t i, int64_t rows, int64_t k, int64_t depth, int64_t steps) const {
    if (i < t.m) return Ahead(t.a, i, min(rows, t.m - i), k, depth, steps);
    return next ? Ahead(next->a, 0, min(rows, next->m), 0, min(block_depth, next->k), steps) : Ahead();
  }

  Ahead block_after(bool more_rows, int64_t j, int64_t k, int64_t steps) const {
    const auto block = [steps](const GemmTile& p, int64_t k0, int64_t j0) {
      return Ahead(p.b, k0, min(block_depth, p.k - k0), j0, min(columns_of_block(p), p.n - j0), steps);
    };
    if (k + block_depth < t.k) return block(t, k + block_depth, j);
    if (j + columns_of_block(t) < t.n) return block(t, 0, j + columns_of_block(t));
    if (more_rows) return block(t, 0, 0);
    return next ? block(*next, 0, 0) : Ahead();
  }

  /// Terms [k, k + depth) of 32 x 32 elements of c from (i, j) on, of which rows x columns exist.
  void multiply_strips(int64_t i, int64_t rows, int64_t j, int64_t columns, const Strip& x, const char* y, int64_t k,
                       int64_t depth, const Sums& sums) {
    const int64_t steps = (depth + terms - 1) / terms;
    char* const at = static_cast<char*>(t.c.data) + (i * t.c.stride + j) * (narrowed ? 2 : 4);
    if (narrowed) {
      const Sums from{k > 0 ? sums.data : nullptr, sums.stride};
      if (k + depth < t.k) return multiply(sums, from, x, y, steps, {}, meanwhile);
      other_corner = !other_corner;
      float* corner = corners + other_corner * strip * strip;
      multiply({corner, strip}, from, x, y, steps, {at, t.c.stride * 2}, meanwhile);
      meanwhile.rounding = {reinterpret_cast<uint16_t*>(at), t.c.stride, rows, first(columns), corner};
      return;
    }
    float* c = reinterpret_cast<float*>(at);
    const bool add = t.add || k > 0;
    if (rows == strip && columns == strip) {
      const Near near = add && j + 2 * strip <= t.n ? Near{at + strip * 4, t.c.stride * 4} : Near{};
      multiply({c, t.c.stride}, {add ? c : nullptr, t.c.stride}, x, y, steps, near, meanwhile);
      return;
    }
    if (add) copy(corners, strip, c, t.c.stride, rows, columns);
    multiply({corners, strip}, {add ? corners : nullptr, strip}, x, y, steps, {}, meanwhile);
    copy(c, t.c.stride, corners, strip, rows, columns);
  }
};

}  // namespace

void gemm_tile(const GemmTile& t, const GemmTile* next, void* scratch) {
  char* left = static_cast<char*>(scratch);
  char* right = left + left_elements * 2;
  float* corners = reinterpret_cast<float*>(right + right_elements * 2);
  configure_tiles();
  Product{t, next, left, right, corners, corners + 2 * strip * strip}.run();
  _tile_release();
}

}  // namespace hexad::kernels::cpu::HEXAD_ISA
