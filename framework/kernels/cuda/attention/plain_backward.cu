// Backward pass of attention for every element type and head size, without atomics. The probabilities P are recomputed
// from the saved log-sum-exp. dS = scale * P * (dO V^T - <dO, O>), dQ = dS K, dK = dS^T Q, dV = P^T dO. One kernel sums
// over keys, and another sums over queries.
#include "framework/kernels/cuda/attention/kernels.cuh"
#include "framework/kernels/cuda/attention/plain.cuh"

namespace hexad::kernels::cuda {
namespace {

template <class A>
struct RowFacts {
  int2 ranges[tile_rows];
  A log_sum_exp[tile_rows], mean[tile_rows];
};
template <class A>
struct QueryShared {
  Staged<A, tile_rows> gradients;
  Stage<A> stage;
  RowFacts<A> facts;
};
template <class A>
struct KeyShared {
  Staged<A, tile_rows> weights, gradients;
  Stage<A> stage;
  RowFacts<A> facts;
};

template <class D, class A>
__device__ __forceinline__ void load_facts(RowFacts<A>& facts, const BackwardOperands<D>& p, const HeadTile<D>& q) {
  load_ranges(facts.ranges, p.visible, q.token, q.count);
  const auto r = static_cast<int>(threadIdx.x);
  if (r >= q.count) return;
  facts.log_sum_exp[r] = p.log_sum_exp[(q.token + r) * p.sizes.heads + q.head];
  facts.mean[r] = p.mean[(q.token + r) * p.sizes.heads + q.head];
}

/// The probability of a key, and the gradient of the unscaled product <q, k>.
template <class A>
struct Pair {
  A weight, gradient;
};
/// Returns the Pair of a query and a key, given <q, k> as `score` and <dout, v> as `change`. If the query does not see
/// the key, both numbers are zero.
template <class A>
__device__ __forceinline__ Pair<A> pair_of(const RowFacts<A>& facts, int row, int64_t key, A scale, A score, A change) {
  if (!sees(facts.ranges[row], key)) return {A(0), A(0)};
  const A weight = exp(scale * score - facts.log_sum_exp[row]);
  return {weight, scale * weight * (change - facts.mean[row])};
}

template <class D>
__global__ void __launch_bounds__(plain_threads) backward_queries(BackwardOperands<D> p, Suspects only) {
  using A = sum_t<D>;
  auto& shared = dynamic_shared<QueryShared<A>>();
  const AttentionSizes& n = p.sizes;
  const int slices = slices_of(n.size), column = static_cast<int>(blockIdx.x) % slices * plain_slice;
  const int64_t query_tiles = tiles_of(n.queries), block = blockIdx.x / slices;
  if (only != nullptr && only[block] == 0) return;
  const auto [tile, head, sequence] = place_of(block, query_tiles, n.heads);
  const int64_t key_head = head / (n.heads / n.key_heads), i = tile * tile_rows;
  const HeadTile<D> q = head_tile(p.q, sequence, n.queries, i, tile_rows, head);
  const HeadTile<D> dout = head_tile(p.dout, sequence, n.queries, i, tile_rows, head);
  const TileRange range = p.visible.tiles[sequence * query_tiles + tile];
  load_facts(shared.facts, p, q);

  Share<A> dq{};
  for (int64_t j = range.begin / tile_rows * tile_rows; j < range.end; j += tile_rows) {
    const HeadTile<D> k = head_tile(p.k, sequence, n.keys, j, tile_rows, key_head);
    const HeadTile<D> v = head_tile(p.v, sequence, n.keys, j, tile_rows, key_head);
    Share<A> scores, changes;
    multiply(scores, shared.stage, q, k, n.size);
    multiply(changes, shared.stage, dout, v, n.size);
#pragma unroll
    for (int r = 0; r < plain_share; ++r)
#pragma unroll
      for (int c = 0; c < plain_share; ++c) {
        const int row = plain_row(r), key = plain_column(c);
        shared.gradients[row][key] = pair_of(shared.facts, row, j + key, p.scale, scores[r][c], changes[r][c]).gradient;
      }
    __syncthreads();
    stage<plain_slice>(shared.stage.rows, k, column, n.size);
    __syncthreads();
    weigh<false>(!range.sees_all(j, j + tile_rows), dq, shared.gradients, shared.stage, shared.facts.ranges, j);
  }
  store_share(head_tile(p.dq, sequence, n.queries, i, tile_rows, head), dq, column, n.size);
}

template <class D>
__global__ void __launch_bounds__(plain_threads) backward_keys(BackwardOperands<D> p, Suspects only) {
  using A = sum_t<D>;
  auto& shared = dynamic_shared<KeyShared<A>>();
  const AttentionSizes& n = p.sizes;
  const int slices = slices_of(n.size), column = static_cast<int>(blockIdx.x) % slices * plain_slice;
  const int64_t query_tiles = tiles_of(n.queries), key_tiles = tiles_of(n.keys), block = blockIdx.x / slices;
  if (only != nullptr && only[block] == 0) return;
  const auto [key_tile, key_head, sequence] = place_of(block, key_tiles, n.key_heads);
  const int64_t j = key_tile * tile_rows, group = n.heads / n.key_heads;
  const HeadTile<D> k = head_tile(p.k, sequence, n.keys, j, tile_rows, key_head);
  const HeadTile<D> v = head_tile(p.v, sequence, n.keys, j, tile_rows, key_head);

  Share<A> dk{}, dv{};
  for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
    for (int64_t tile = 0; tile < query_tiles; ++tile) {
      const TileRange range = p.visible.tiles[sequence * query_tiles + tile];
      if (!range.sees_some(j, j + k.count)) continue;
      const HeadTile<D> q = head_tile(p.q, sequence, n.queries, tile * tile_rows, tile_rows, head);
      const HeadTile<D> dout = head_tile(p.dout, sequence, n.queries, tile * tile_rows, tile_rows, head);
      const bool masked = !range.sees_all(j, j + tile_rows);
      __syncthreads();  // waits until the previous tile has been summed
      load_facts(shared.facts, p, q);
      Share<A> scores, changes;
      multiply(scores, shared.stage, q, k, n.size);
      multiply(changes, shared.stage, dout, v, n.size);
#pragma unroll
      for (int r = 0; r < plain_share; ++r)
#pragma unroll
        for (int c = 0; c < plain_share; ++c) {
          const int row = plain_row(r), key = plain_column(c);
          const Pair<A> pair = pair_of(shared.facts, row, j + key, p.scale, scores[r][c], changes[r][c]);
          shared.weights[row][key] = pair.weight;
          shared.gradients[row][key] = pair.gradient;
        }
      __syncthreads();
      stage<plain_slice>(shared.stage.rows, dout, column, n.size);
      __syncthreads();
      weigh<true>(masked, dv, shared.weights, shared.stage, shared.facts.ranges, j);
      __syncthreads();
      stage<plain_slice>(shared.stage.rows, q, column, n.size);
      __syncthreads();
      weigh<true>(masked, dk, shared.gradients, shared.stage, shared.facts.ranges, j);
    }
  }
  store_share(head_tile(p.dk, sequence, n.keys, j, tile_rows, key_head), dk, column, n.size);
  store_share(head_tile(p.dv, sequence, n.keys, j, tile_rows, key_head), dv, column, n.size);
}

// Computes products[row] = <x, y> for the rows of all heads. One warp computes one row; each lane loads N elements at a
// time.
template <int N, class D>
__global__ void row_products(sum_t<D>* products, HeadRows<D> x, HeadRows<D> y, int64_t rows, int heads, int size) {
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;
  if (row >= rows) return;
  const D *a = x.at(row / heads, row % heads), *b = y.at(row / heads, row % heads);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  sum_t<D> sum = 0;
  for (int c = lane * N; c < size; c += warp_size * N) {
    const auto left = *reinterpret_cast<const Vector<D, N>*>(a + c),
               right = *reinterpret_cast<const Vector<D, N>*>(b + c);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to<sum_t<D>>(left.at[i]) * to<sum_t<D>>(right.at[i]);
  }
  sum = warp_sum(sum);
  if (lane == 0) products[row] = sum;
}

template <int N, class D>
bool in_pieces(const HeadRows<D>& rows, int size) {
  return multiples_of(N, sizeof(D), rows.data, {rows.token, rows.head, size});
}

}  // namespace

template <class D>
void plain_backward_queries(Stream& stream, const BackwardOperands<D>& p, Suspects only) {
  const AttentionSizes& n = p.sizes;
  launch_with<QueryShared<sum_t<D>>>("attention", backward_queries<D>,
                                     n.sequences * n.heads * tiles_of(n.queries) * slices_of(n.size), plain_threads,
                                     stream, p, only);
}

template <class D>
void plain_backward_keys(Stream& stream, const BackwardOperands<D>& p, Suspects only) {
  const AttentionSizes& n = p.sizes;
  launch_with<KeyShared<sum_t<D>>>("attention", backward_keys<D>,
                                   n.sequences * n.key_heads * tiles_of(n.keys) * slices_of(n.size), plain_threads,
                                   stream, p, only);
}

template <class D>
void gradient_means(Stream& stream, sum_t<D>* mean, const HeadRows<D>& dout, const HeadRows<D>& out, int64_t tokens,
                    int heads, int size) {
  constexpr int threads = 256, rows_per_block = threads / warp_size, piece = 4;
  const int64_t rows = tokens * heads;
  const bool pieces = sizeof(D) < 8 && in_pieces<piece>(dout, size) && in_pieces<piece>(out, size);
  launch("attention", pieces ? row_products<piece, D> : row_products<1, D>, blocks_of(rows, rows_per_block), threads,
         stream, mean, dout, out, rows, heads, size);
}

template void plain_backward_queries<float>(Stream&, const BackwardOperands<float>&, Suspects);
template void plain_backward_queries<double>(Stream&, const BackwardOperands<double>&, Suspects);
template void plain_backward_queries<__nv_bfloat16>(Stream&, const BackwardOperands<__nv_bfloat16>&, Suspects);
template void plain_backward_keys<float>(Stream&, const BackwardOperands<float>&, Suspects);
template void plain_backward_keys<double>(Stream&, const BackwardOperands<double>&, Suspects);
template void plain_backward_keys<__nv_bfloat16>(Stream&, const BackwardOperands<__nv_bfloat16>&, Suspects);
template void gradient_means<float>(Stream&, float*, const HeadRows<float>&, const HeadRows<float>&, int64_t, int, int);
template void gradient_means<double>(Stream&, double*, const HeadRows<double>&, const HeadRows<double>&, int64_t, int,
                                     int);
template void gradient_means<__nv_bfloat16>(Stream&, float*, const HeadRows<__nv_bfloat16>&,
                                            const HeadRows<__nv_bfloat16>&, int64_t, int, int);

}  // namespace hexad::kernels::cuda
