// Rows as they are computed, and as they are sent.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

using base::Dtype;
using base::size_of;
using device::Category;
using device::Device;
using tensor::Tensor;

using device::Stream;

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
  /// Returns `source` packed for sending; its values themselves if they already lie so.
  Tensor pack(Stream& s, const RowSource& source) const;
  /// Writes row r to out[index[r]], in order if `index` is undefined.
  void unpack(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const;
  /// Returns an uninitialised buffer for `rows` rows.
  Rows buffer(int64_t rows, Device device, Category category = Category::communication) const;
};

/// Rows index[r] of `rows`; an undefined index leaves them as they are.
Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index);

/// Rows of tokens that arrived in `format` as `sent`, copied to where they are computed: to `grouped`, each with the
/// weights of its slot. Returns the weights [R, M X] as they came; undefined: none did.
Tensor copy_to_groups(Stream& s, const RowFormat& format, const Tensor& sent, const ep::ChunkIndices& chunk,
                      const Rows& grouped);
/// EPS-MoE's LocalReduce: of each row that arrived the sum of what was computed of its copies, times weights [R, M]
/// (undefined: one), and beside it their row weights, 0 where it has no more slots.
Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights);

/// Returns the weights of the slots of each row to send, [W, M], from those of the plan's tokens, weights [T, K] acc; 0
/// where it has no more slots.
Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights);
/// out[row_slots[r, m]] = row_weights[r, m] for the slots [R, M] of slot rows (PlanIndices::row_slots, or a part of
/// them): what came back beside rows, to out [T, K].
void scatter_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots);

}  // namespace hexad::moe
