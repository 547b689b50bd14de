// Sends rows between the ranks while products of other rows are computed.
#pragma once

#include <functional>
#include <vector>

#include "parallel/tp/tensor_parallel.h"

namespace hexad::tp {

using base::Dtype;
using base::Shape;
using device::Device;
using device::Stream;
using tensor::Tensor;

/// Gathers all ranks' rows, part by part.
class RowGather {
 public:
  RowGather() = default;
  /// Starts to exchange `mine` [n, D], which must not change until all parts have arrived on all ranks. Later work of a
  /// stream that was passed to all() may change it.
  RowGather(const Tensor& mine, const ProcessGroup& group, Stream& stream);

  /// Calls visit(rows, begin, end) for the rows [begin, end) of each rank as they arrive. This rank's rows, which are
  /// local, come first, then the rows of its neighbours upwards. `visit` works on `stream`.
  void for_each_part(Stream& stream,
                     const std::function<void(const Tensor& rows, int64_t begin, int64_t end)>& visit) const;
  /// Returns all rows [size n, D] in rank order. Later work on `stream` waits until they have arrived, and on a device
  /// until this rank's rows have left.
  const Tensor& all(Stream& stream) const;

 private:
  int first_ = 0;  // this rank
  Tensor rows_;
  std::vector<Event> arrived_;  // by rank
  std::vector<Event> left_;
};

/// Writes rows [begin, end) of this rank's addend into `out`, on the stream of the sum.
using Addend = std::function<void(const Tensor& out, int64_t begin, int64_t end)>;

/// Returns the sum over the ranks of their addends of `shape` = [rows, D]. The result has all rows, or under sequence
/// parallelism this rank's rows (`rows` must be divisible by the size of the group). A piece is sent while the next
/// piece is computed. Elements are added in rank order for any pieces, so the result is bitwise identical to a plain
/// collective.
Tensor sum_of_products(std::string_view op, const Shape& shape, Dtype dtype, Device device, const TensorParallel& tp,
                       Stream& stream, const Addend& addend);

}  // namespace hexad::tp
