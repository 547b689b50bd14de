// Code shared by the attention kernels: rows of heads, sizes, the work of a block, launches.
#pragma once

#include "framework/kernels/cuda/attention/attention_calls.h"
#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

/// Number of rows in a tile of queries or of keys.
inline constexpr int tile_rows = 64;

__host__ __device__ constexpr int64_t tiles_of(int64_t rows) { return (rows + tile_rows - 1) / tile_rows; }

/// A tensor [tokens, heads, size] whose last dimension is contiguous.
template <class D>
struct HeadRows {
  D* data = nullptr;
  int64_t token = 0, head = 0;  // strides in elements
  __device__ __forceinline__ D* at(int64_t t, int64_t h) const { return data + t * token + h * head; }
};
template <class T>
HeadRows<device_t<T>> head_rows(const Tensor& t) {
  return {pointer<T>(t), t.strides()[0], t.strides()[1]};
}

struct AttentionSizes {
  int64_t sequences, queries, keys;
  int heads, key_heads, size;
};
inline AttentionSizes sizes_of(const Tensor& q, const Tensor& k, const AttentionShape& shape) {
  return {.sequences = shape.sequences,
          .queries = shape.queries,
          .keys = shape.keys,
          .heads = static_cast<int>(q.dim(1)),
          .key_heads = static_cast<int>(k.dim(1)),
          .size = static_cast<int>(q.dim(2))};
}

/// Adjacent rows of one head in one sequence.
template <class D>
struct HeadTile {
  HeadRows<D> rows;
  int64_t token;
  int count;  // number of existing rows from `token` on
  int64_t head;
};
/// Returns at most `most` rows of a sequence of `length` positions, beginning at position `begin`.
template <class D>
__device__ __forceinline__ HeadTile<D> head_tile(const HeadRows<D>& rows, int64_t sequence, int64_t length,
                                                 int64_t begin, int most, int64_t head) {
  const int64_t left = length - begin;
  return {rows, sequence * length + begin, static_cast<int>(left < most ? left : most), head};
}

/// The tile, head and sequence that a block computes. Adjacent blocks compute the tiles of one head.
struct Place {
  int64_t tile, head, sequence;
};
__device__ __forceinline__ Place place_of(int64_t block, int64_t tiles, int64_t heads) {
  return {block % tiles, block / tiles % heads, block / tiles / heads};
}

}  // namespace hexad::kernels::cuda
