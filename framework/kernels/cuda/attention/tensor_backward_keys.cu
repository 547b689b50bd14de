// Gradients of keys and values on tensor cores. A block has 64 keys, 16 per warp. It iterates over tiles of 64 queries
// of all heads that share the keys. Scores are computed transposed, as [key, query]. A warp's probabilities are then
// the left operand of the sums over queries without rearrangement. See plain_backward.cu.
#include "framework/kernels/cuda/attention/tensor.cuh"

namespace hexad::kernels::cuda {
namespace {

template <int Width>
struct QueryTile {
  SharedTile<Width> q, dout;
  int2 ranges[tile_rows];
  float log_sum_exp[tile_rows], mean[tile_rows];
};
template <int Width>
struct Shared {
  SharedTile<Width> k, v;
  QueryTile<Width> queries[2];
  int begin[tensor_warps], end[tensor_warps];
};

template <int Width>
__device__ __forceinline__ void copy_queries(QueryTile<Width>& to, const BackwardOperands<__nv_bfloat16>& p,
                                             int64_t sequence, int64_t tile, int64_t head) {
  const AttentionSizes& n = p.sizes;
  const HeadTile<__nv_bfloat16> q = head_tile(p.q, sequence, n.queries, tile * tile_rows, tile_rows, head);
  copy_tile(to.q, q, n.size);
  copy_tile(to.dout, head_tile(p.dout, sequence, n.queries, tile * tile_rows, tile_rows, head), n.size);
  const int r = static_cast<int>(threadIdx.x) % tile_rows;
  const bool there = r < q.count;
  const int64_t row = q.token + (there ? r : 0);
  if (threadIdx.x < tile_rows) {
    mma::copy<8>(&to.ranges[r], &p.visible.rows[row], there);
  } else {
    mma::copy<4>(&to.log_sum_exp[r], &p.log_sum_exp[row * n.heads + head], there);
    mma::copy<4>(&to.mean[r], &p.mean[row * n.heads + head], there);
  }
}

/// Returns a range of query tiles that contains all queries that see any key of [first, last).
template <int Width>
__device__ __forceinline__ int2 seeing_tiles(Shared<Width>& shared, const TileRange* tiles, int64_t count,
                                             int64_t first, int64_t last) {
  int begin = INT32_MAX, end = 0;
  for (int t = static_cast<int>(threadIdx.x); t < count; t += tensor_threads)
    if (tiles[t].sees_some(first, last)) begin = min(begin, t), end = t + 1;
  begin = __reduce_min_sync(0xffffffffu, begin);
  end = __reduce_max_sync(0xffffffffu, end);
  if (lane_index() == 0) shared.begin[warp_index()] = begin, shared.end[warp_index()] = end;
  __syncthreads();
  for (int w = 0; w < tensor_warps; ++w) begin = min(begin, shared.begin[w]), end = max(end, shared.end[w]);
  return {min(begin, end), end};
}

template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    backward(BackwardOperands<__nv_bfloat16> p, int* suspects, int64_t key_tiles) {
  auto& shared = dynamic_shared<Shared<Width>>();
  const AttentionSizes& n = p.sizes;
  const auto [tile, key_head, sequence] = place_of(blockIdx.x, key_tiles, n.key_heads);
  const int j = static_cast<int>(tile) * tile_rows;
  const int64_t query_tiles = tiles_of(n.queries);
  const HeadTile<__nv_bfloat16> k = head_tile(p.k, sequence, n.keys, j, tile_rows, key_head);
  const TileRange* ranges = p.visible.tiles + sequence * query_tiles;
  const int2 seeing = seeing_tiles(shared, ranges, query_tiles, j, j + k.count);
  const int tiles_per_head = seeing.y - seeing.x, group = n.heads / n.key_heads;

  copy_tile(shared.k, k, n.size);
  copy_tile(shared.v, head_tile(p.v, sequence, n.keys, j, tile_rows, key_head), n.size);
  int query_tile = seeing.x;
  int64_t head = key_head * group;
  if (tiles_per_head > 0) copy_queries(shared.queries[0], p, sequence, query_tile, head);

  const float scale = p.scale * log2_e;
  const int warp_row = warp_index() * 16, count = k.count - warp_row;
  Sums<Width / 8> dk[1]{}, dv[1]{};
  for (int step = 0; step < group * tiles_per_head; ++step) {
    const TileRange range = ranges[query_tile];
    if (++query_tile == seeing.y) query_tile = seeing.x, ++head;  // advances to the next tile
    mma::wait();
    __syncthreads();
    if (step + 1 < group * tiles_per_head) copy_queries(shared.queries[(step + 1) % 2], p, sequence, query_tile, head);
    QueryTile<Width>& queries = shared.queries[step % 2];

    Sums<tile_rows / 8> weights[1]{}, changes[1]{};
    multiply_rows(weights, shared.k, warp_row, queries.q);
    multiply_rows(changes, shared.v, warp_row, queries.dout);
    const bool masked = !range.sees_all(j, j + tile_rows);
#pragma unroll
    for (int c = 0; c < tile_rows / 8; ++c)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = 8 * c + lane_column() + i;
        const float log_sum_exp = queries.log_sum_exp[query] * log2_e, mean = queries.mean[query];
        const int2 seen = masked ? queries.ranges[query] : make_int2(0, INT32_MAX);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = j + warp_row + lane_row() + 8 * half;
          const bool hidden = key < seen.x || key >= seen.y;
          float &weight = weights[0][c][2 * half + i], &change = changes[0][c][2 * half + i];
          weight = hidden ? 0.0f : mma::exp2(fmaf(weight, scale, -log_sum_exp));
          change = hidden ? 0.0f : weight * (change - mean);
        }
      }
    weigh_rows(dv, weights, queries.dout);
    weigh_rows(dk, changes, queries.q);
  }
  mma::wait();
  __syncthreads();
  for (auto& sum : dk[0])
    for (float& x : sum) x *= p.scale;
  store_rows(p.dk, k.token + warp_row, count, key_head, n.size, dk[0], shared.k, warp_row);
  store_rows(p.dv, k.token + warp_row, count, key_head, n.size, dv[0], shared.v, warp_row);
  const int suspect = __syncthreads_or(has_nan(dk[0], count) || has_nan(dv[0], count));
  if (threadIdx.x == 0) suspects[blockIdx.x] = suspect;
}

template <int Width>
void start(Stream& stream, const BackwardOperands<__nv_bfloat16>& p, int* suspects) {
  const AttentionSizes& n = p.sizes;
  const int64_t tiles = tiles_of(n.keys);
  launch_with<Shared<Width>>("attention", backward<Width>, n.sequences * n.key_heads * tiles, tensor_threads, stream, p,
                             suspects, tiles);
}

}  // namespace

void tensor_backward_keys(Stream& stream, const BackwardOperands<__nv_bfloat16>& p, int* suspects) {
  p.sizes.size <= 64 ? start<64>(stream, p, suspects) : start<128>(stream, p, suspects);
}

}  // namespace hexad::kernels::cuda
