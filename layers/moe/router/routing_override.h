// Choices of experts that do not come from the model, for experiments and benchmarks.
#pragma once

#include <memory>
#include <vector>

#include "layers/base/micro_batch.h"
#include "layers/base/moe_config.h"

namespace hexad::moe {

using device::Device;
using layers::ForwardContext;
using tensor::Tensor;

/// Chooses experts by the global index of a token, so that the choice does not depend on the layout.
class RoutingOverride {
 public:
  /// Makes the override. Throws Error(data) if the trace file cannot be read, or if a line names an expert out of range
  /// or twice.
  RoutingOverride(const MoeConfig& c, int64_t layer);

  /// Returns ids [count, K] i32 for rows [begin, begin + count) of the micro-batch on this rank.
  Tensor choose(const ForwardContext& pass, int64_t begin, int64_t count, Device device) const;

 private:
  void zipf(int32_t* ids, const ForwardContext& pass, int64_t token) const;

  MoeConfig config_;
  int64_t layer_;
  std::vector<int32_t> trace_;        // experts of each line of the trace, [lines, K]
  std::vector<double> zipf_weights_;  // weights of the experts, [E]
};

/// Returns null for `routing: model`.
std::unique_ptr<RoutingOverride> make_routing_override(const MoeConfig& c, int64_t layer);

}  // namespace hexad::moe
