// Sums that the threads of a warp group have in registers after products on Hopper's tensor cores.
#pragma once

#include <cstdint>

namespace hexad::kernels::cuda {

/// Row and column in a tile.
struct SumPlace {
  int row, column;
};

/// Returns the place of sum `i` of thread `thread`, for a tile of 128 rows and `columns` columns. The rows are computed
/// by wgmma.m64nNk16 with N = `columns` (PTX ISA, "Register Fragments for wgmma"). If two warp groups compute the tile,
/// each has 64 rows. If one warp group computes it, the second half of a thread's sums belongs to the last 64 rows. A
/// thread has two adjacent columns of each block of eight columns, in two rows. The four threads of a quad have the
/// same rows.
constexpr SumPlace place_of_sum(int thread, int i, int columns) {
  const int sums = columns / 2;  // sums of a thread in 64 rows
  return {.row = (thread / 128 + i / sums) * 64 + thread % 128 / 32 * 16 + i % 4 / 2 * 8 + thread % 32 / 4,
          .column = i % sums / 4 * 8 + thread % 4 * 2 + i % 2};
}

}  // namespace hexad::kernels::cuda
