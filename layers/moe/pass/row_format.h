// Rows in memory, rows to send, and the wire format.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/tensor.h"

namespace hexad::moe {

using base::Dtype;
using base::size_of;
using device::Category;
using device::Device;
using device::Stream;
using tensor::Tensor;

/// Rows with values [R, D] and row_weights [R, M X] acc: X weights for each of a row's M slots (M = 1 if rows belong to
/// slots). Row weights are routing weights in dispatch, and gradients of routing weights in the combine of backward.
struct Rows {
  Tensor values, row_weights{};  // row_weights may be undefined
};

/// Rows to send. Row r is values[index[r]], or values[r] if index is undefined, with row_weights[r].
struct RowSource {
  Tensor values, index{}, row_weights{};
  Tensor inverse{};  // inverse of `index`; only for an `index` with the token of every row (PermuteKernels::gather)
};

/// Format of the rows that a pass sends, each with `row_weights` weights.
struct RowFormat {
  kernels::WireFormat wire;
  int64_t width;
  Dtype dtype;
  int64_t row_weights;
  const kernels::WireKernels* kernels = nullptr;  // null: the kernels of the device

  bool plain() const { return wire == kernels::WireFormat::model && row_weights == 0; }
  int64_t row_bytes() const {
    return plain() ? width * size_of(dtype) : kernels::wire_row_bytes(wire, dtype, width, row_weights);
  }
  /// Returns a tensor whose row r is row r of `source`, values[index[r]], packed for sending. Returns the values
  /// themselves if the format is plain and there is no index.
  Tensor gather_packed(Stream& s, const RowSource& source) const;
  /// Unpacks row r of `sent` to row index[r] of `out`, or to row r if `index` is undefined.
  void scatter_unpacked(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const;
  /// Returns an uninitialised tensor for `rows` packed rows.
  Tensor packed_buffer(int64_t rows, Device device) const;
  /// Returns an uninitialised buffer for `rows` rows.
  Rows buffer(int64_t rows, Device device, Category category = Category::communication) const;
};

/// Returns rows [begin, end) of `rows`, which share its memory.
Rows part_of(const Rows& rows, int64_t begin, int64_t end);

/// Returns rows index[r] of `rows`, or `rows` itself if `index` is undefined.
Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index);

}  // namespace hexad::moe
