// Tiles of the kernels on tensor cores. A block has four warps, each with 16 (forward: 32) different rows of the left
// operands. Head sizes are padded with zeros to Width = 64 or 128. Rows that are read tile by tile are double-buffered
// in shared memory: the next tile is copied while the current tile is used, with one barrier per tile.
#pragma once

#include "framework/kernels/cuda/attention/kernels.cuh"
#include "framework/kernels/cuda/attention/mma.cuh"

namespace hexad::kernels::cuda {

inline constexpr int tensor_warps = 4, tensor_threads = tensor_warps * warp_size;

/// Rows of Width elements in shared memory. The pieces of 16 bytes in a row are permuted. In eight adjacent rows, the
/// pieces with the same index are therefore in different banks.
template <int Width, int Height = tile_rows>
struct alignas(16) SharedTile {
  static constexpr int pieces = Width / 8;
  __nv_bfloat16 data[Height * Width];
  __device__ __forceinline__ __nv_bfloat16* at(int row, int piece) {
    return data + row * Width + (piece ^ (row & 7)) * 8;
  }
  /// Returns the offset of at(row, odd + even). row % 8 must equal lane % 8, `odd` must be 0 or 1, and `even` must be
  /// an even constant. One register holds the part of the offset that does not depend on `even`.
  __device__ __forceinline__ int lane_offset(int row, int odd, int even) const {
    return row * Width + ((odd ^ (static_cast<int>(threadIdx.x) & 7)) ^ even) * 8;
  }
};

__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / warp_size; }
__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % warp_size; }
/// Return the row (0 to 7), and the first of the two columns, of this lane in a fragment of sums.
__device__ __forceinline__ int lane_row() { return lane_index() / 4; }
__device__ __forceinline__ int lane_column() { return lane_index() % 4 * 2; }

/// Sums of 16 rows and 8 N columns.
template <int N>
using Sums = float[N][4];

/// Starts to copy a tile. Missing rows and elements are filled with zeros.
template <int Width, int Height>
__device__ __forceinline__ void copy_tile(SharedTile<Width, Height>& tile, const HeadTile<__nv_bfloat16>& from,
                                          int size) {
  constexpr int pieces = SharedTile<Width, Height>::pieces, step = tensor_threads / pieces;
  static_assert(tensor_threads % pieces == 0 && step % 8 == 0 && Height % step == 0);
  const int first = static_cast<int>(threadIdx.x) / pieces, piece = static_cast<int>(threadIdx.x) % pieces;
  const __nv_bfloat16* const some =
      from.rows.at(from.token, from.head);  // any valid address, for copies that read nothing
  const __nv_bfloat16* source = some + first * from.rows.token + piece * 8;
  const int last = piece * 8 < size ? from.count : 0;
  __nv_bfloat16* to = tile.at(first, piece);
#pragma unroll 1  // an unrolled loop would leave fewer registers for the sums
  for (int row = first; row < Height; row += step, source += step * from.rows.token, to += step * Width)
    mma::copy<16>(to, row < last ? source : some, row < last);
}

/// Loads rows [row, row + 16) and elements [16 k, 16 k + 16) as a left operand.
template <int Width, int Height>
__device__ __forceinline__ void load_left(uint32_t (&left)[4], SharedTile<Width, Height>& tile, int row, int k) {
  const int lane = lane_index();
  mma::load(left, tile.data, tile.lane_offset(row + lane % 16, lane / 16, 2 * k));
}

/// Computes sums[m][n] += <left row, right row> for 16 M left rows from `row` on and all right rows.
template <int M, int Width, int Height, int Columns>
__device__ __forceinline__ void multiply_rows(Sums<Columns / 8> (&sums)[M], SharedTile<Width, Height>& left, int row,
                                              SharedTile<Width, Columns>& right) {
  const int lane = lane_index();
#pragma unroll
  for (int k = 0; k < Width / 16; ++k) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_left(a[m], left, row + 16 * m, k);
#pragma unroll
    for (int n = 0; n < Columns / 16; ++n) {
      uint32_t b[4];
      mma::load(b, right.data, right.lane_offset(lane % 8 + lane / 16 * 8, lane / 8 % 2, 2 * k) + 16 * n * Width);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma::multiply_add(sums[m][2 * n], a[m], b[0], b[1]);
        mma::multiply_add(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Computes sums[m][n] += weights times rows. The columns of the weights correspond to the rows of `tile`. The weights
/// are rounded to bf16.
template <int M, int Width, int Columns>
__device__ __forceinline__ void weigh_rows(Sums<Width / 8> (&sums)[M], const Sums<Columns / 8> (&weights)[M],
                                           SharedTile<Width, Columns>& tile) {
  const int lane = lane_index();
#pragma unroll
  for (int k = 0; k < Columns / 16; ++k) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&w)[4] = weights[m][2 * k + half];
        a[m][2 * half] = mma::pack(w[0], w[1]);
        a[m][2 * half + 1] = mma::pack(w[2], w[3]);
      }
#pragma unroll
    for (int n = 0; n < Width / 16; ++n) {
      uint32_t b[4];
      mma::load_transposed(b, tile.data, tile.lane_offset(lane % 16, lane / 16, 2 * n) + 16 * k * Width);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma::multiply_add(sums[m][2 * n], a[m], b[0], b[1]);
        mma::multiply_add(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Writes the first `count` of a warp's 16 rows of results. The results are staged in rows [row, row + 16) of `tile`,
/// which no other warp may use.
template <int Width, int Height>
__device__ __forceinline__ void store_rows(const HeadRows<__nv_bfloat16>& to, int64_t token, int count, int64_t head,
                                           int size, const Sums<Width / 8>& sums, SharedTile<Width, Height>& tile,
                                           int row) {
#pragma unroll
  for (int n = 0; n < Width / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<uint32_t*>(tile.at(row + lane_row() + 8 * half, n) + lane_column()) =
          mma::pack(sums[n][2 * half], sums[n][2 * half + 1]);
  __syncwarp();
  constexpr int pieces = SharedTile<Width, Height>::pieces;
#pragma unroll
  for (int i = lane_index(); i < 16 * pieces; i += warp_size) {
    const int r = i / pieces, piece = i % pieces;
    if (r < count && piece * 8 < size)
      *reinterpret_cast<uint4*>(to.at(token + r, head) + piece * 8) =
          *reinterpret_cast<const uint4*>(tile.at(row + r, piece));
  }
}

/// True if any of this lane's sums in the first `count` rows is NaN.
template <int N>
__device__ __forceinline__ bool has_nan(const Sums<N>& sums, int count) {
  bool nan = false;
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) nan |= sums[n][i] != sums[n][i] && lane_row() + i / 2 * 8 < count;
  return nan;
}

inline constexpr float log2_e = 1.4426950408889634f, log_2 = 0.6931471805599453f;

}  // namespace hexad::kernels::cuda
