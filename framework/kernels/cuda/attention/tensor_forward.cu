// Forward pass of attention on tensor cores (Dao 2023). A block has 128 queries, 32 per warp, and iterates over tiles
// of 64 keys.
#include "framework/kernels/cuda/attention/tensor.cuh"

namespace hexad::kernels::cuda {
namespace {

constexpr int parts = 2;  // groups of 16 rows per warp; each loaded matrix of keys or values is used for 32 rows
constexpr int block_rows = 16 * parts * tensor_warps;

template <int Width>
struct Shared {
  SharedTile<Width, block_rows> q;
  SharedTile<Width> k[2], v[2];
  int2 ranges[block_rows];
};

__device__ __forceinline__ TileRange both(const TileRange& a, const TileRange& b) {
  return {min(a.begin, b.begin), max(a.end, b.end), max(a.all_begin, b.all_begin), min(a.all_end, b.all_end)};
}

/// Returns the maximum over the four lanes of a row; NaN is ignored.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    forward(ForwardOperands<__nv_bfloat16> p, int* suspects, int64_t blocks_per_head) {
  auto& shared = dynamic_shared<Shared<Width>>();
  const AttentionSizes& n = p.sizes;
  const auto [turn, head, sequence] = place_of(blockIdx.x, blocks_per_head, n.heads);
  const int64_t block = blocks_per_head - 1 - turn;  // causal mask: the last rows take longest, so they begin first
  const int64_t key_head = head / (n.heads / n.key_heads), query_tiles = tiles_of(n.queries);
  const HeadTile<__nv_bfloat16> q = head_tile(p.q, sequence, n.queries, block * block_rows, block_rows, head);
  const TileRange* tile = p.visible.tiles + sequence * query_tiles + 2 * block;
  const bool two_tiles = 2 * block + 1 < query_tiles;
  const TileRange range = two_tiles ? both(tile[0], tile[1]) : both(tile[0], {INT32_MAX, 0, 0, 0});
  const int row = static_cast<int>(threadIdx.x);
  shared.ranges[row] = row < q.count ? p.visible.rows[q.token + row] : make_int2(0, 0);

  const int first_key = range.begin / tile_rows * tile_rows;
  auto copy_keys = [&](int j, int buffer) {
    copy_tile(shared.k[buffer], head_tile(p.k, sequence, n.keys, j, tile_rows, key_head), n.size);
    copy_tile(shared.v[buffer], head_tile(p.v, sequence, n.keys, j, tile_rows, key_head), n.size);
  };
  copy_tile(shared.q, q, n.size);
  if (first_key < range.end) copy_keys(first_key, 0);

  const float scale = p.scale * log2_e;  // exponentials are computed as powers of two
  const int warp_row = warp_index() * 16 * parts;
  Sums<Width / 8> sums[parts]{};
  float largest[parts][2], total[parts][2]{};
  for (auto& pair : largest) pair[0] = pair[1] = -INFINITY;
  int buffer = 0;
  for (int j = first_key; j < range.end; j += tile_rows, buffer ^= 1) {
    mma::wait();
    __syncthreads();  // this tile has arrived, and all threads have finished the previous tile
    if (j + tile_rows < range.end) copy_keys(j + tile_rows, buffer ^ 1);
    Sums<tile_rows / 8> scores[parts]{};
    multiply_rows(scores, shared.q, warp_row, shared.k[buffer]);
    if (!range.sees_all(j, j + tile_rows)) {
#pragma unroll
      for (int m = 0; m < parts; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int2 seen = shared.ranges[warp_row + 16 * m + 8 * half + lane_row()];
          const int begin = seen.x - j - lane_column(), end = seen.y - j - lane_column();
#pragma unroll
          for (int c = 0; c < tile_rows / 8; ++c)
#pragma unroll
            for (int i = 0; i < 2; ++i)
              if (8 * c + i < begin || 8 * c + i >= end) scores[m][c][2 * half + i] = -INFINITY;
        }
    }
#pragma unroll
    for (int m = 0; m < parts; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = largest[m][half];
#pragma unroll
        for (auto& s : scores[m]) top = fmaxf(top, fmaxf(s[2 * half], s[2 * half + 1]));
        top = row_max(top);
        const float base = top == -INFINITY ? 0.0f : top * scale;  // if top is -inf, exp2(-inf - base) is zero
        const float factor = mma::exp2(fmaf(largest[m][half], scale, -base));
        largest[m][half] = top;
        float sum = 0;
#pragma unroll
        for (auto& s : scores[m])
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            s[i] = mma::exp2(fmaf(s[i], scale, -base));
            sum += s[i];
          }
        total[m][half] = fmaf(total[m][half], factor, sum);
#pragma unroll
        for (auto& s : sums[m])
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) s[i] *= factor;
      }
    weigh_rows(sums, scores, shared.v[buffer]);
  }
  mma::wait();  // if there are no keys, the copy of the queries may still write to memory that is reused below
  __syncthreads();

  bool nan = false;
#pragma unroll
  for (int m = 0; m < parts; ++m) {
    const int first = warp_row + 16 * m, count = q.count - first;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float all = row_sum(total[m][half]), inverse = all == 0 ? 0.0f : 1 / all;
      const float base = largest[m][half] == -INFINITY ? 0.0f : largest[m][half] * scale;
      const int r = lane_row() + 8 * half;
      if (lane_column() == 0 && r < count)
        p.log_sum_exp[(q.token + first + r) * n.heads + head] = all == 0 ? -INFINITY : (base + log2f(all)) * log_2;
#pragma unroll
      for (auto& s : sums[m]) s[2 * half] *= inverse, s[2 * half + 1] *= inverse;
    }
    nan |= has_nan(sums[m], count);
    store_rows(p.out, q.token + first, count, head, n.size, sums[m], shared.q, first);
  }
  const bool low = warp_index() < tensor_warps / 2;
  const int suspect[2] = {__syncthreads_or(nan && low), __syncthreads_or(nan && !low)};
  int* verdict = suspects + (sequence * n.heads + head) * query_tiles + 2 * block;
  if (threadIdx.x == 0) verdict[0] = suspect[0];
  if (threadIdx.x == 0 && two_tiles) verdict[1] = suspect[1];
}

template <int Width>
void start(Stream& stream, const ForwardOperands<__nv_bfloat16>& p, int* suspects) {
  const AttentionSizes& n = p.sizes;
  const int64_t blocks = blocks_of(n.queries, block_rows);
  launch_with<Shared<Width>>("attention", forward<Width>, n.sequences * n.heads * blocks, tensor_threads, stream, p,
                             suspects, blocks);
}

}  // namespace

void tensor_forward(Stream& stream, const ForwardOperands<__nv_bfloat16>& p, int* suspects) {
  static_assert(block_rows == 2 * tile_rows && tensor_threads == block_rows);
  p.sizes.size <= 64 ? start<64>(stream, p, suspects) : start<128>(stream, p, suspects);
}

}  // namespace hexad::kernels::cuda
