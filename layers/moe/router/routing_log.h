// Log of the experts that a run chose for its tokens. Another run can then choose the same experts.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "layers/base/layer_names.h"
#include "layers/base/micro_batch.h"

namespace hexad::layers {

/// Experts of each token, by MoE layer, step (0: evaluation) and global index of the token. The log does not depend on
/// the layout. Rounding may change the order of scores, and thus the choice of experts. To exclude this effect, a run
/// can use the choices of a more exact run.
class RoutingLog {
 public:
  /// Records the experts of the micro-batch's rows from row `begin` on: `ids` [rows, K] (i32, on any device). Replaces
  /// earlier records of the same tokens.
  void record(const ForwardContext& context, int64_t layer, int64_t begin, const Tensor& ids, Stream& stream);
  /// Returns the recorded ids [count, K] of the micro-batch's rows from row `begin` on. A token without a record gets
  /// the first K experts if its whole sequence is padding. Throws std::logic_error if any other token has no record, or
  /// if the log has no record of the layer and step.
  Tensor choose(const ForwardContext& context, int64_t layer, int64_t begin, int64_t count, Device device) const;
  bool empty() const { return experts_.empty(); }

 private:
  using Key = std::pair<int64_t, uint64_t>;                         // layer and step
  std::map<Key, std::map<int64_t, std::vector<int32_t>>> experts_;  // experts of each token, by global index
  int64_t top_k_ = 0;
};

}  // namespace hexad::layers
