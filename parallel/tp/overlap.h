// Overlap of the transfer of some rows with matrix products on other rows.
#pragma once

#include <functional>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "parallel/tp/tensor_parallel.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

/// All-gather of rows. Each rank's part can be used as soon as it arrives.
class RowGather final : public autograd::SavedTensor {
 public:
  /// Starts to send `mine` [n, D] to all ranks. `mine` must not change until it has been sent. On a device, call
  /// all(stream) before work on `stream` changes `mine`. On the host, the sends own `mine`.
  RowGather(const Tensor& mine, const ProcessGroup& group, Stream& stream);

  /// Calls visit(rows, begin, end) for the rows [begin, end) of each rank, after making `stream` wait for these rows.
  /// The order is: this rank, the higher ranks in ascending order, the lower ranks in ascending order. `visit` must
  /// issue its work to `stream`.
  void for_each_part(Stream& stream,
                     const std::function<void(const Tensor& rows, int64_t begin, int64_t end)>& visit) const;
  /// Returns all rows [size * n, D], in the order of the ranks. Later work on `stream` waits until all rows have
  /// arrived and, on a device, until this rank's rows have been sent.
  const Tensor& all(Stream& stream) const;
  /// Returns all(stream), for a weight pullback to which a pullback passes the rows (Backward::save_for_weights).
  Tensor get(Stream& stream) override { return all(stream); }

 private:
  int first_ = 0;  // index of this rank
  Tensor rows_;
  std::vector<Event> arrived_;  // one event for each rank
  std::vector<Event> left_;
};

/// Returns the transfers of a RowGather: a message to each other rank. All ranks together have `rows` rows of
/// `row_bytes` bytes.
std::vector<schedule::Transfer> transfers_of_gather(int64_t rows, int64_t row_bytes, const ProcessGroup& group);

/// Function that writes rows [begin, end) of this rank's addend to `out`, on the stream of the sum.
using Addend = std::function<void(const Tensor& out, int64_t begin, int64_t end)>;

/// Returns the sum over the ranks of addends of shape [rows, D]. The result has all rows or, with sequence parallelism,
/// only this rank's rows (`rows` must be divisible by the size of the group). Each piece is sent while the next piece
/// is computed. In groups that sum in the order of the ranks (ProcessGroup::all_reduce()), the result is bitwise
/// identical to the result of a plain collective.
Tensor sum_of_products(std::string_view op, const Shape& shape, Dtype dtype, Device device, const TensorParallel& tp,
                       Stream& stream, const Addend& addend);
/// Returns the transfers of sum_of_products() for `rows` rows of `row_bytes` bytes: an all-reduce of each piece or,
/// with sequence parallelism, a message to each other rank.
std::vector<schedule::Transfer> transfers_of_sum(int64_t rows, int64_t row_bytes, const TensorParallel& tp);

}  // namespace hexad::tp
