#include "framework/kernels/cpu/products/gemm.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/pair_tile.h"
#include "framework/kernels/cpu/products/scratch.h"
#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {
namespace {

/// Tile function and sizes of one unit.
struct Loops {
  void (*run)(const GemmTile& tile, const GemmTile* next, void* scratch);
  int64_t scratch;                // bytes of scratch memory of one call
  int64_t row_step, column_step;  // the first row and column of a tile are multiples of these steps
  int64_t depth;                  // maximum number of terms of a tile with more than gemm_sums bf16 results
};

Loops loops_of(Unit unit) {
  if (unit == Unit::matrix) return {amx::gemm_tile, amx::blocks.scratch(), 32, 64, INT64_MAX};
  if (unit == Unit::dot) return {dot::gemm_tile, dot::blocks.scratch(), 32, 64, INT64_MAX};
  return {machine_isa() == Isa::v4 ? v4::gemm_tile : v3::gemm_tile, gemm_scratch, 42, 64, gemm_depth};
}

// Minimum average number of tiles per thread if there are several threads. Threads that finish early can then take more
// tiles. There are fewer tiles if the tiles would otherwise be too small.
constexpr int64_t tiles_per_thread = 4;

const std::byte* at(const Operand& o, int64_t i, int64_t j) {
  return static_cast<const std::byte*>(o.data) + (i * o.row + j * o.column) * base::size_of(o.dtype);
}

GemmTile part_of(const GemmTile& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  GemmTile p = t;
  p.m = rows, p.n = columns;
  p.a.data = at(t.a, row, 0);
  p.b.data = at(t.b, 0, column);
  p.c.data = static_cast<std::byte*>(t.c.data) + (row * t.c.stride + column) * base::size_of(t.c.dtype);
  return p;
}

/// Halves the longer side of the tile repeatedly, and appends the parts to `tiles`. A part is not halved if its longer
/// side is too short. It is also not halved if it needs no more multiplications, and no more sums in scratch memory,
/// than the limits allow.
void cut(const GemmTile& t, const Loops& loops, double limit, std::vector<GemmTile>& tiles) {
  const bool too_many_sums = t.c.dtype == base::Dtype::bf16 && t.k > loops.depth && t.m * t.n > gemm_sums;
  const bool by_columns = t.n >= t.m;
  const int64_t size = by_columns ? t.n : t.m, step = by_columns ? loops.column_step : loops.row_step;
  const bool divisible = size >= 2 * step;
  if (!divisible || (static_cast<double>(t.m) * static_cast<double>(t.n * t.k) <= limit && !too_many_sums)) {
    tiles.push_back(t);
    return;
  }
  const int64_t half = size / 2 / step * step;
  if (by_columns) {
    cut(part_of(t, 0, t.m, 0, half), loops, limit, tiles);
    cut(part_of(t, 0, t.m, half, size - half), loops, limit, tiles);
  } else {
    cut(part_of(t, 0, half, 0, t.n), loops, limit, tiles);
    cut(part_of(t, half, size - half, 0, t.n), loops, limit, tiles);
  }
}

void fill_zero(const GemmTile& t) {
  const int64_t size = base::size_of(t.c.dtype);
  for (int64_t i = 0; i < t.m; ++i)
    std::memset(static_cast<std::byte*>(t.c.data) + i * t.c.stride * size, 0, t.n * size);
}

}  // namespace

void gemm(std::span<const GemmTile> products, Unit unit) {
  const Loops loops = loops_of(unit);
  double work = 0;
  for (const GemmTile& t : products) work += static_cast<double>(t.m) * static_cast<double>(t.n * t.k);
  const int64_t threads = threads_for(work);
  const double limit = threads == 1 ? work : work / static_cast<double>(threads * tiles_per_thread);
  std::vector<GemmTile> tiles;
  for (const GemmTile& t : products) {
    if (t.m == 0 || t.n == 0) continue;
    if (t.k > 0)
      cut(t, loops, limit, tiles);
    else if (!t.add)
      fill_zero(t);
  }
  std::atomic<size_t> next = 0;
  parallel_for(threads, 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < tiles.size(); i = next++) {
      const size_t after = i + threads;
      loops.run(tiles[i], after < tiles.size() ? &tiles[after] : nullptr, scratch(Scratch::tile, loops.scratch));
    }
  });
}

}  // namespace hexad::kernels::cpu
