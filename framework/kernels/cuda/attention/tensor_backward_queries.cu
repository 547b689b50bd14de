// Gradient of the queries on tensor cores. A block has 64 queries, 16 per warp, and iterates over tiles of 64 keys. See
// plain_backward.cu.
#include "framework/kernels/cuda/attention/tensor.cuh"

namespace hexad::kernels::cuda {
namespace {

template <int Width>
struct Shared {
  SharedTile<Width> q, dout;
  SharedTile<Width> k[2], v[2];
};

template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    backward(BackwardOperands<__nv_bfloat16> p, int* suspects, int64_t query_tiles) {
  auto& shared = dynamic_shared<Shared<Width>>();
  const AttentionSizes& n = p.sizes;
  const auto [turn, head, sequence] = place_of(blockIdx.x, query_tiles, n.heads);
  // With a causal mask, the last tiles take longest, so they begin first.
  const int64_t tile = query_tiles - 1 - turn, i = tile * tile_rows;
  const int64_t key_head = head / (n.heads / n.key_heads);
  const HeadTile<__nv_bfloat16> q = head_tile(p.q, sequence, n.queries, i, tile_rows, head);
  const TileRange range = p.visible.tiles[sequence * query_tiles + tile];

  const int first_key = range.begin / tile_rows * tile_rows;
  auto copy_keys = [&](int j, int buffer) {
    copy_tile(shared.k[buffer], head_tile(p.k, sequence, n.keys, j, tile_rows, key_head), n.size);
    copy_tile(shared.v[buffer], head_tile(p.v, sequence, n.keys, j, tile_rows, key_head), n.size);
  };
  copy_tile(shared.q, q, n.size);
  copy_tile(shared.dout, head_tile(p.dout, sequence, n.queries, i, tile_rows, head), n.size);
  if (first_key < range.end) copy_keys(first_key, 0);

  const float scale = p.scale * log2_e;
  const int warp_row = warp_index() * 16, count = q.count - warp_row;
  int2 seen[2];
  float log_sum_exp[2], mean[2];
  for (int half = 0; half < 2; ++half) {
    const bool there = lane_row() + 8 * half < count;
    const int64_t row = q.token + (there ? warp_row + lane_row() + 8 * half : 0);
    seen[half] = there ? p.visible.rows[row] : make_int2(0, 0);
    log_sum_exp[half] = p.log_sum_exp[row * n.heads + head] * log2_e;
    mean[half] = p.mean[row * n.heads + head];
  }
  Sums<Width / 8> dq[1]{};
  int buffer = 0;
  for (int j = first_key; j < range.end; j += tile_rows, buffer ^= 1) {
    mma::wait();
    __syncthreads();
    if (j + tile_rows < range.end) copy_keys(j + tile_rows, buffer ^ 1);
    Sums<tile_rows / 8> scores[1]{}, changes[1]{};
    multiply_rows(scores, shared.q, warp_row, shared.k[buffer]);
    multiply_rows(changes, shared.dout, warp_row, shared.v[buffer]);
    const bool masked = !range.sees_all(j, j + tile_rows);
#pragma unroll
    for (int c = 0; c < tile_rows / 8; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e / 2;
        const float weight = mma::exp2(fmaf(scores[0][c][e], scale, -log_sum_exp[half]));
        const int key = j + 8 * c + lane_column() + e % 2;
        const bool hidden = masked && (key < seen[half].x || key >= seen[half].y);
        scores[0][c][e] = hidden ? 0.0f : weight * (changes[0][c][e] - mean[half]);
      }
    weigh_rows(dq, scores, shared.k[buffer]);
  }
  mma::wait();
  __syncthreads();
  for (auto& sum : dq[0])
    for (float& x : sum) x *= p.scale;
  store_rows(p.dq, q.token + warp_row, count, head, n.size, dq[0], shared.q, warp_row);
  const int suspect = __syncthreads_or(has_nan(dq[0], count));
  if (threadIdx.x == 0) suspects[(sequence * n.heads + head) * query_tiles + tile] = suspect;
}

template <int Width>
void start(Stream& stream, const BackwardOperands<__nv_bfloat16>& p, int* suspects) {
  const AttentionSizes& n = p.sizes;
  const int64_t tiles = tiles_of(n.queries);
  launch_with<Shared<Width>>("attention", backward<Width>, n.sequences * n.heads * tiles, tensor_threads, stream, p,
                             suspects, tiles);
}

}  // namespace

void tensor_backward_queries(Stream& stream, const BackwardOperands<__nv_bfloat16>& p, int* suspects) {
  p.sizes.size <= 64 ? start<64>(stream, p, suspects) : start<128>(stream, p, suspects);
}

}  // namespace hexad::kernels::cuda
