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

/// All ranks' rows, arriving part by part.
class RowGather {
 public:
  RowGather() = default;
  /// Starts to exchange `mine` [n, D], which must stay as it is until all parts have arrived everywhere (the operations
  /// keep its memory).
  RowGather(const Tensor& mine, const ProcessGroup& group, Stream& stream);

  /// Calls visit(rows, begin, end) for the rows [begin, end) of each rank as they arrive: this rank's first, which are
  /// here, then those of its neighbours upwards. `visit` works on `stream`.
  void for_each_part(Stream& stream,
                     const std::function<void(const Tensor& rows, int64_t begin, int64_t end)>& visit) const;
  /// [size n, D] in rank order; what `stream` does from now on finds all of it.
  const Tensor& all(Stream& stream) const;

 private:
  int first_ = 0;  // this rank
  Tensor rows_;
  std::vector<Event> arrived_;  // by rank
};

/// Writes rows [begin, end) of this rank's addend into `out`, on the stream of the sum.
using Addend = std::function<void(const Tensor& out, int64_t begin, int64_t end)>;

/// The sum over the ranks of their addends of `shape` = [rows, D]: all of its rows, or under sequence parallelism those
/// of this rank (they must be divisible by the size of the group). A piece is sent while the next one is computed;
/// elements are added in rank order whatever the pieces, so the result has the bits of a plain collective.
Tensor sum_of_products(std::string_view op, const Shape& shape, Dtype dtype, Device device, const TensorParallel& tp,
                       Stream& stream, const Addend& addend);

}  // namespace hexad::tp
