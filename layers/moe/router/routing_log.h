// Log of the experts that the tokens of a run visited, so that another run can visit the same experts.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "layers/base/micro_batch.h"

namespace hexad::layers {

using device::Device;
using device::Stream;

/// Experts of each token, by MoE layer, step (0: evaluation) and global index, independent of the layout. Rounding may
/// change the order of scores. A run that takes its choices from a more exact run avoids this effect.
class RoutingLog {
 public:
  /// Records ids [rows, K] (i32, on any device) of the micro-batch's rows from `begin` on. They replace earlier records
  /// of the same tokens.
  void record(const ForwardContext& pass, int64_t layer, int64_t begin, const Tensor& ids, Stream& stream);
  /// Returns ids [count, K] of the same rows. Padding without a record visits the first K experts. Throws
  /// std::logic_error for any other token without a record.
  Tensor choose(const ForwardContext& pass, int64_t layer, int64_t begin, int64_t count, Device device) const;
  bool empty() const { return experts_.empty(); }

 private:
  using Key = std::pair<int64_t, uint64_t>;                         // layer, step
  std::map<Key, std::map<int64_t, std::vector<int32_t>>> experts_;  // experts by token
  int64_t top_k_ = 0;
};

}  // namespace hexad::layers
