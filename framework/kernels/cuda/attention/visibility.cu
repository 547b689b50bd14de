#include "framework/kernels/cuda/attention/visibility.cuh"

#include <climits>

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

struct Mask {
  const int *first, *last;
  int64_t queries, keys, offset, window;
  bool causal;
};

// Each block of tile_rows threads computes one tile.
__global__ void find_visible(int2* rows, TileRange* tiles, Mask mask) {
  __shared__ TileRange parts[tile_rows / warp_size];
  const int64_t row_tiles = tiles_of(mask.queries);
  const int64_t sequence = blockIdx.x / row_tiles, i = blockIdx.x % row_tiles * tile_rows + threadIdx.x;
  int64_t begin = 0, end = 0;
  if (i < mask.queries) {
    const int64_t row = sequence * mask.queries + i;
    begin = mask.first != nullptr ? max(mask.first[row], 0) : 0;
    end = mask.last != nullptr ? min(static_cast<int64_t>(mask.last[row]), mask.keys) : mask.keys;
    if (mask.causal) end = min(end, i + mask.offset + 1);
    if (mask.window > 0) begin = max(begin, i + mask.offset - mask.window + 1);
    if (end <= begin) begin = end = 0;
    rows[row] = make_int2(static_cast<int>(begin), static_cast<int>(end));
  }
  const auto b = static_cast<int>(begin), e = static_cast<int>(end);
  const TileRange part{__reduce_min_sync(0xffffffffu, e > b ? b : INT_MAX), __reduce_max_sync(0xffffffffu, e),
                       __reduce_max_sync(0xffffffffu, b), __reduce_min_sync(0xffffffffu, e)};
  if (threadIdx.x % warp_size == 0) parts[threadIdx.x / warp_size] = part;
  __syncthreads();
  if (threadIdx.x != 0) return;
  TileRange all = parts[0];
  for (const TileRange& p : parts)
    all = {min(all.begin, p.begin), max(all.end, p.end), max(all.all_begin, p.all_begin), min(all.all_end, p.all_end)};
  tiles[blockIdx.x] = all;
}

const int* bounds(const Tensor& t) { return t.defined() ? pointer<int32_t>(t) : nullptr; }

}  // namespace

Visibility::Visibility(Stream& stream, const Tensor& first, const Tensor& last, const AttentionShape& shape,
                       Device device)
    : rows_(Tensor::empty({shape.sequences * shape.queries}, Dtype::i64, device)),
      tiles_(Tensor::empty({shape.sequences * tiles_of(shape.queries), 2}, Dtype::i64, device)) {
  static_assert(sizeof(int2) == sizeof(int64_t) && sizeof(TileRange) == 2 * sizeof(int64_t));
  const Mask mask{bounds(first),      bounds(last), shape.queries, shape.keys,
                  shape.query_offset, shape.window, shape.causal};
  const Visible v = view();
  launch("attention", find_visible, tiles_.dim(0), tile_rows, stream, const_cast<int2*>(v.rows),
         const_cast<TileRange*>(v.tiles), mask);
}

Visible Visibility::view() const {
  return {static_cast<const int2*>(device_raw(rows_)), static_cast<const TileRange*>(device_raw(tiles_))};
}

}  // namespace hexad::kernels::cuda
