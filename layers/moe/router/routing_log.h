// Log of the experts that the tokens of a run visited, so that another run can visit the same ones.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "layers/base/micro_batch.h"

namespace hexad::layers {

using device::Device;
using device::Stream;

/// Rounding moves scores past each other; where a run chooses what a more exact one chose, it decides nothing. Tokens
/// are known by MoE layer, step (0: evaluation) and global index, whatever the layout.
class RoutingLog {
 public:
  /// Notes ids [rows, K] (i32, on any device) of the micro-batch's rows from `begin` on; a second time, they replace.
  void record(const ForwardContext& pass, int64_t layer, int64_t begin, const Tensor& ids, Stream& stream);
  /// ids [count, K] of the same rows. Padding that was never noted visits the first K experts. Throws std::logic_error
  /// for another token that was not.
  Tensor choose(const ForwardContext& pass, int64_t layer, int64_t begin, int64_t count, Device device) const;
  bool empty() const { return experts_.empty(); }

 private:
  using Key = std::pair<int64_t, uint64_t>;                         // layer, step
  std::map<Key, std::map<int64_t, std::vector<int32_t>>> experts_;  // by token
  int64_t top_k_ = 0;
};

}  // namespace hexad::layers
