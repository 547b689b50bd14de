// Overrides of the router's choice of experts, for experiments and benchmarks.
#pragma once

#include <memory>
#include <vector>

#include "layers/base/micro_batch.h"
#include "layers/base/moe_config.h"
#include "layers/base/moe_names.h"

namespace hexad::moe {

/// Chooses experts by the global index of a token and, for routing: zipf, by the seed, step and layer. The choice
/// therefore does not depend on the layout.
class RoutingOverride {
 public:
  /// Makes the override. With routing: trace, reads the trace file. Throws Error(data) if the file cannot be read or is
  /// empty, or if a line is not a list of top_k different experts in range.
  RoutingOverride(const MoeConfig& c, int64_t layer);

  /// Returns the experts of rows [begin, begin + count) of the micro-batch on this rank: ids [count, K] i32.
  Tensor choose(const ForwardContext& context, int64_t begin, int64_t count, Device device) const;

 private:
  void zipf(int32_t* ids, const ForwardContext& context, int64_t token) const;

  MoeConfig config_;
  int64_t layer_;
  std::vector<int32_t> trace_;        // experts of each line of the trace, [lines, K]; empty without a trace
  std::vector<double> zipf_weights_;  // weights with which routing: zipf draws experts, [E]
};

/// Makes the override of `c.routing`; null for `routing: model`.
std::unique_ptr<RoutingOverride> make_routing_override(const MoeConfig& c, int64_t layer);

}  // namespace hexad::moe
