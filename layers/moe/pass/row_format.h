// Rows as they are computed, and as they are sent.
#pragma once

#include "layers/moe/pass/pass.h"

namespace hexad::moe {

/// Of rows that a trip sends, with as many accompanying numbers.
struct RowFormat {
  kernels::WireFormat wire;
  int64_t width;
  Dtype dtype;
  int64_t extras;

  bool plain() const { return wire == kernels::WireFormat::model && extras == 0; }
  int64_t row_bytes() const {
    return plain() ? width * size_of(dtype) : kernels::wire_row_bytes(wire, dtype, width, extras);
  }
  /// Of `source`; the rows themselves where they lie as they are sent already.
  Tensor pack(Stream& s, const RowSource& source) const;
  /// To `out`, row r to index[r]; an undefined index leaves the order.
  void unpack(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const;
  /// Uninitialised.
  Rows room(int64_t count, Device device, Category category = Category::communication) const;
};

/// Rows index[r] of `rows`; an undefined index leaves them as they are.
Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index);

/// Rows of tokens that arrived in `format` as `sent`, copied to where they are computed: to `grouped`, each with the
/// numbers of its slot. Returns the numbers [R, M X] as they came; undefined: none did.
Tensor copy_to_groups(Stream& s, const RowFormat& format, const Tensor& sent, const ep::ChunkIndices& chunk,
                      const Rows& grouped);
/// EPS-MoE's LocalReduce: of each row that arrived the sum of what was computed of its copies, times weights [R, M]
/// (undefined: one), and beside it their numbers, 0 where it has no more slots.
Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights);

}  // namespace hexad::moe
