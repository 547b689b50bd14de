// Forward pass of attention for every element type and head size, with an online softmax (Milakov & Gimelshein 2018)
// over tiles of keys.
#include "framework/kernels/cuda/attention/kernels.cuh"
#include "framework/kernels/cuda/attention/plain.cuh"

namespace hexad::kernels::cuda {
namespace {

template <class A>
struct Shared {
  Staged<A, tile_rows> scores;
  Stage<A> stage;
  A row[tile_rows];  // factors of the previous sums; after the last tile, divisors of the sums
  int2 ranges[tile_rows];
};

/// Returns the maximum over the four adjacent threads that share a row.
template <class A>
__device__ __forceinline__ A row_max(A x) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, x, step);
    x = other > x ? other : x;
  }
  return x;
}
template <class A>
__device__ __forceinline__ A row_sum(A x) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

template <class D>
__global__ void __launch_bounds__(plain_threads) forward(ForwardOperands<D> p, Suspects only) {
  using A = sum_t<D>;
  auto& shared = dynamic_shared<Shared<A>>();
  const AttentionSizes& n = p.sizes;
  const int slices = slices_of(n.size), slice = static_cast<int>(blockIdx.x) % slices;
  const int64_t query_tiles = tiles_of(n.queries);
  const int64_t block = blockIdx.x / slices;
  if (only != nullptr && only[block] == 0) return;
  const auto [tile, head, sequence] = place_of(block, query_tiles, n.heads);
  const int64_t key_head = head / (n.heads / n.key_heads), first_row = tile * tile_rows;
  const HeadTile<D> q = head_tile(p.q, sequence, n.queries, first_row, tile_rows, head);
  const TileRange range = p.visible.tiles[sequence * query_tiles + tile];
  load_ranges(shared.ranges, p.visible, q.token, q.count);

  const A infinity = static_cast<A>(INFINITY);
  const int row = static_cast<int>(threadIdx.x) / 4,
            part = static_cast<int>(threadIdx.x) % 4;  // this thread's row and quarter of the row in the softmax
  A largest = -infinity, base = 0, total = 0;
  Share<A> sums{};
  for (int64_t j = range.begin / tile_rows * tile_rows; j < range.end; j += tile_rows) {
    const HeadTile<D> k = head_tile(p.k, sequence, n.keys, j, tile_rows, key_head);
    const HeadTile<D> v = head_tile(p.v, sequence, n.keys, j, tile_rows, key_head);
    const bool masked = !range.sees_all(j, j + tile_rows);
    Share<A> products;
    multiply(products, shared.stage, q, k, n.size);
#pragma unroll
    for (int r = 0; r < plain_share; ++r)
#pragma unroll
      for (int c = 0; c < plain_share; ++c) shared.scores[plain_row(r)][plain_column(c)] = p.scale * products[r][c];
    __syncthreads();

    const int2 seen = shared.ranges[row];
    A* scores = shared.scores[row];
    const A previous = largest;
    for (int c = part; c < tile_rows; c += 4)
      if (sees(seen, j + c) && scores[c] > largest) largest = scores[c];
    largest = row_max(largest);
    base = largest == -infinity ? A(0) : largest;  // if all scores are -inf or NaN, exp(-inf - base) is zero
    const A factor = exp(previous - base);
    A sum = 0;
    for (int c = part; c < tile_rows; c += 4) {
      const A weight = sees(seen, j + c) ? exp(scores[c] - base) : A(0);
      scores[c] = weight;
      sum += weight;
    }
    total = total * factor + row_sum(sum);
    if (part == 0) shared.row[row] = factor;
    stage<plain_slice>(shared.stage.rows, v, slice * plain_slice, n.size);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < plain_share; ++r)
#pragma unroll
      for (int c = 0; c < plain_share; ++c) sums[r][c] *= shared.row[plain_row(r)];
    weigh<false>(masked, sums, shared.scores, shared.stage, shared.ranges, j);
  }
  __syncthreads();
  if (part == 0) {
    shared.row[row] = total;
    if (slice == 0 && row < q.count)
      p.log_sum_exp[(q.token + row) * n.heads + head] = total == A(0) ? -infinity : base + log(total);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < plain_share; ++r) {
    const A divisor = shared.row[plain_row(r)];
#pragma unroll
    for (int c = 0; c < plain_share; ++c) sums[r][c] = divisor == A(0) ? A(0) : sums[r][c] / divisor;
  }
  store_share(head_tile(p.out, sequence, n.queries, first_row, tile_rows, head), sums, slice * plain_slice, n.size);
}

}  // namespace

template <class D>
void plain_forward(Stream& stream, const ForwardOperands<D>& p, Suspects only) {
  const AttentionSizes& n = p.sizes;
  launch_with<Shared<sum_t<D>>>("attention", forward<D>,
                                n.sequences * n.heads * tiles_of(n.queries) * slices_of(n.size), plain_threads, stream,
                                p, only);
}

template void plain_forward<float>(Stream&, const ForwardOperands<float>&, Suspects);
template void plain_forward<double>(Stream&, const ForwardOperands<double>&, Suspects);
template void plain_forward<__nv_bfloat16>(Stream&, const ForwardOperands<__nv_bfloat16>&, Suspects);

}  // namespace hexad::kernels::cuda
