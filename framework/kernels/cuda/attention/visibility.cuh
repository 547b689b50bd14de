// The keys that each query sees. Causality, documents, windows and lengths together give one range per query and one
// summary per tile of queries. Kernels use the ranges and summaries to skip keys that no query sees. They also omit the
// mask in tiles in which every query sees every key.
#pragma once

#include "framework/kernels/cuda/attention/operands.cuh"

namespace hexad::kernels::cuda {

/// Summary of the keys that a tile of queries sees. No query sees a key outside [begin, end). If no query sees any key,
/// `begin` is INT_MAX and `end` is 0. Every query sees all keys in [all_begin, all_end). This range is empty if the
/// tile extends beyond the end of the sequence.
struct TileRange {
  int begin, end, all_begin, all_end;

  __device__ __forceinline__ bool sees_some(int64_t first, int64_t last) const { return begin < last && end > first; }
  __device__ __forceinline__ bool sees_all(int64_t first, int64_t last) const {
    return all_begin <= first && last <= all_end;
  }
};

/// View for kernels. Query r, with 0 <= r < B * S, sees the keys [rows[r].x, rows[r].y). rows[r] is (0, 0) if the query
/// sees no key. tiles[] summarises the tiles of queries.
struct Visible {
  const int2* rows;
  const TileRange* tiles;  // [B, tiles_of(S)]
};

/// Memory of a Visible. It is freed in stream order.
class Visibility {
 public:
  Visibility(Stream& stream, const Tensor& first, const Tensor& last, const AttentionShape& shape, Device device);
  Visible view() const;

 private:
  Tensor rows_, tiles_;
};

}  // namespace hexad::kernels::cuda
