// Tiles of the plain kernels, for any element type and head size. Threads multiply elements that are staged in shared
// memory. A block of 256 threads computes 64 queries x 64 keys. Thread (y, x) of 16 x 16 computes rows y + 16 i and
// columns x + 16 j. If a head has more than 64 elements, there is one block for each slice of 64 elements. Each of
// these blocks computes all scores.
#pragma once

#include "framework/kernels/cuda/attention/visibility.cuh"

namespace hexad::kernels::cuda {

inline constexpr int plain_threads = 256, plain_side = 16, plain_share = tile_rows / plain_side;
inline constexpr int plain_slice = 64;
/// Number of columns that are staged at a time for the scores. In f64, more columns would exceed the shared memory that
/// every card permits.
template <class A>
inline constexpr int plain_columns = sizeof(A) == sizeof(double) ? 16 : 32;

/// The elements of a tile that one thread computes.
template <class A>
using Share = A[plain_share][plain_share];
/// A tile in shared memory. Padding puts adjacent rows in different banks.
template <class A, int Columns>
using Staged = A[tile_rows][Columns + 1];

/// Shared memory of a block. It first contains the operands of the scores, then a slice of the rows that are multiplied
/// by the weights.
template <class A>
union Stage {
  struct {
    Staged<A, plain_columns<A>> left, right;
  } pair;
  Staged<A, plain_slice> rows;
};

inline __host__ __device__ int slices_of(int size) { return (size + plain_slice - 1) / plain_slice; }

__device__ __forceinline__ int plain_row(int i) { return static_cast<int>(threadIdx.x) / plain_side + plain_side * i; }
__device__ __forceinline__ int plain_column(int j) {
  return static_cast<int>(threadIdx.x) % plain_side + plain_side * j;
}

/// Loads elements [column, column + Columns) of the rows of a tile. Missing rows and columns are filled with zeros.
template <int Columns, class A, class D>
__device__ __forceinline__ void stage(Staged<A, Columns>& staged, const HeadTile<D>& tile, int column, int size) {
  for (int i = static_cast<int>(threadIdx.x); i < tile_rows * Columns; i += plain_threads) {
    const int r = i / Columns, c = i % Columns;
    const bool there = r < tile.count && column + c < size;
    staged[r][c] = there ? to<A>(tile.rows.at(tile.token + r, tile.head)[column + c]) : A(0);
  }
}

/// Computes sums[i][j] = <left row i, right row j>. Before the caller overwrites the stage, all threads must pass a
/// barrier.
template <class A, class D>
__device__ __forceinline__ void multiply(Share<A>& sums, Stage<A>& memory, const HeadTile<D>& left,
                                         const HeadTile<D>& right, int size) {
  for (auto& row : sums)
    for (A& sum : row) sum = 0;
  for (int column = 0; column < size; column += plain_columns<A>) {
    __syncthreads();
    stage<plain_columns<A>>(memory.pair.left, left, column, size);
    stage<plain_columns<A>>(memory.pair.right, right, column, size);
    __syncthreads();
#pragma unroll 4
    for (int c = 0; c < plain_columns<A>; ++c) {
      A x[plain_share], y[plain_share];
#pragma unroll
      for (int i = 0; i < plain_share; ++i)
        x[i] = memory.pair.left[plain_row(i)][c], y[i] = memory.pair.right[plain_column(i)][c];
#pragma unroll
      for (int i = 0; i < plain_share; ++i)
#pragma unroll
        for (int j = 0; j < plain_share; ++j) sums[i][j] += x[i] * y[j];
    }
  }
}

__device__ __forceinline__ bool sees(const int2& range, int64_t key) { return key >= range.x && key < range.y; }

/// Computes sums[i][c] += sum_j w(i, j) rows[j][c]. The weights are stored as [query, key]. If `Transposed` is true, i
/// is a key and j is a query, so w(i, j) = weights[j][i]; otherwise w(i, j) = weights[i][j]. If `Masked` is true, skips
/// pairs in which the query does not see the key. A NaN in a masked row then has no effect.
template <bool Transposed, bool Masked, class A>
__device__ __forceinline__ void weigh(Share<A>& sums, const Staged<A, tile_rows>& weights, const Stage<A>& memory,
                                      const int2 (&ranges)[tile_rows], int64_t first_key) {
#pragma unroll 4
  for (int j = 0; j < tile_rows; ++j) {
    A x[plain_share];
#pragma unroll
    for (int c = 0; c < plain_share; ++c) x[c] = memory.rows[j][plain_column(c)];
#pragma unroll
    for (int i = 0; i < plain_share; ++i) {
      const int r = plain_row(i), query = Transposed ? j : r, key = Transposed ? r : j;
      if (Masked && !sees(ranges[query], first_key + key)) continue;
      const A w = weights[query][key];
#pragma unroll
      for (int c = 0; c < plain_share; ++c) sums[i][c] += w * x[c];
    }
  }
}
template <bool Transposed, class A>
__device__ __forceinline__ void weigh(bool masked, Share<A>& sums, const Staged<A, tile_rows>& weights,
                                      const Stage<A>& memory, const int2 (&ranges)[tile_rows], int64_t first_key) {
  if (masked) {
    weigh<Transposed, true>(sums, weights, memory, ranges, first_key);
  } else {
    weigh<Transposed, false>(sums, weights, memory, ranges, first_key);
  }
}

/// Writes this thread's elements of a slice of the result.
template <class D, class A>
__device__ __forceinline__ void store_share(const HeadTile<D>& tile, const Share<A>& sums, int column, int size) {
#pragma unroll
  for (int i = 0; i < plain_share; ++i) {
    const int r = plain_row(i);
    if (r >= tile.count) continue;
    D* row = tile.rows.at(tile.token + r, tile.head);
#pragma unroll
    for (int j = 0; j < plain_share; ++j) {
      const int c = column + plain_column(j);
      if (c < size) row[c] = to<D>(sums[i][j]);
    }
  }
}

/// Loads the range of keys of each row. The ranges of missing rows are empty.
__device__ __forceinline__ void load_ranges(int2 (&ranges)[tile_rows], const Visible& visible, int64_t row, int count) {
  const auto r = static_cast<int>(threadIdx.x);
  if (r < tile_rows) ranges[r] = r < count ? visible.rows[row + r] : make_int2(0, 0);
}

}  // namespace hexad::kernels::cuda
