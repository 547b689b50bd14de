// Rows as they are computed, and as they are sent.
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

/// values [R, D]; row_weights [R, M X] acc: X for each of a row's M slots (M = 1 where rows are of slots). In dispatch
/// these are routing weights, in the combine of backward their gradients.
struct Rows {
  Tensor values, row_weights{};  // row_weights undefined: there are none
};

/// Rows to send: row r is values[index[r]] (index undefined: values[r]) with row_weights[r].
struct RowSource {
  Tensor values, index{}, row_weights{};
  Tensor inverse{};  // of `index`, where that names each row's token and is whole (PermuteKernels::gather)
};

/// Format of the rows that a pass sends, each with `row_weights` row weights.
struct RowFormat {
  kernels::WireFormat wire;
  int64_t width;
  Dtype dtype;
  int64_t row_weights;
  const kernels::WireKernels* kernels = nullptr;  // null: the device's

  bool plain() const { return wire == kernels::WireFormat::model && row_weights == 0; }
  int64_t row_bytes() const {
    return plain() ? width * size_of(dtype) : kernels::wire_row_bytes(wire, dtype, width, row_weights);
  }
  /// Returns a tensor whose row r is row r of `source`, packed for sending; its values themselves if they already lie
  /// so.
  Tensor pack(Stream& s, const RowSource& source) const;
  /// Unpacks row r of `sent` to row index[r] of `out`, in order if `index` is undefined.
  void unpack(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const;
  /// Returns an uninitialised buffer for `rows` rows.
  Rows buffer(int64_t rows, Device device, Category category = Category::communication) const;
};

/// Rows index[r] of `rows`; an undefined index leaves them as they are.
Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index);

}  // namespace hexad::moe
