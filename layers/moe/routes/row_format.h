// Representations of rows: in memory, as a source of rows to send, and in wire format.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/tensor.h"
#include "layers/base/moe_names.h"

namespace hexad::moe {

/// Rows in memory: values [R, D] and row_weights [R, M X] in the accumulator dtype. A row has M slots (M = 1 if rows
/// belong to slots), each with X weights. Row weights are routing weights in dispatch, and gradients of routing weights
/// in the combine of backward.
struct Rows {
  Tensor values, row_weights{};  // row_weights may be undefined
};

/// Rows to send. Row r is values[index[r]], or values[r] if index is undefined, with row_weights[r].
struct RowSource {
  Tensor values, index{}, row_weights{};
  Tensor inverse{};  // inverse of `index`, if `index` contains tokens (see PermuteKernels::gather)
};

/// Format of the rows that a pass sends. Each row has `row_weights` weights.
struct RowFormat {
  kernels::WireFormat wire;
  int64_t width;
  Dtype dtype;
  int64_t row_weights;
  const kernels::WireKernels* kernels = nullptr;  // null: the kernels of the device

  bool plain() const { return wire == kernels::WireFormat::model && row_weights == 0; }
  /// Returns the bytes of a packed row.
  int64_t row_bytes() const {
    return plain() ? width * size_of(dtype) : kernels::wire_row_bytes(wire, dtype, width, row_weights);
  }
  /// Returns the bytes of an unpacked row and its weights.
  int64_t unpacked_bytes() const { return width * size_of(dtype) + row_weights * size_of(accumulator_dtype(dtype)); }
  /// Returns the rows of `source`, packed for sending. Returns source.values itself if the format is plain and there is
  /// no index.
  Tensor gather_packed(Stream& s, const RowSource& source) const;
  /// Unpacks row r of `sent` to row index[r] of `out`, or to row r if `index` is undefined.
  void scatter_unpacked(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const;
  /// Returns an uninitialised tensor for `rows` packed rows.
  Tensor packed_buffer(int64_t rows, Device device) const;
  /// Returns an uninitialised buffer for `rows` rows.
  Rows buffer(int64_t rows, Device device, Category category = Category::communication) const;
};

/// Returns rows [begin, end) of `rows`. The result shares the memory of `rows`.
Rows part_of(const Rows& rows, int64_t begin, int64_t end);

/// Returns rows whose row r is row index[r] of `rows`. Returns `rows` itself if `index` is undefined. Undefined members
/// of `rows` stay undefined.
Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index);

}  // namespace hexad::moe
