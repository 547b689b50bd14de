// The mixture-of-experts layer: router, plan, experts, losses.
#pragma once

#include <memory>
#include <optional>

#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/moe/experts.h"
#include "layers/moe/routing_override.h"

namespace hexad::moe {

class MoeLayer {
 public:
  /// `index` counts the MoE layers of the model, `layer` its blocks.
  MoeLayer(const ModelConfig& c, int64_t layer, int64_t index, const Builder& b);

  struct Output {
    Value y;        // as x
    Value penalty;  // [1] acc: weighted auxiliary losses, this rank's addend; no data when all are off
  };
  /// x[rows, D]: all rows of the micro-batch on this rank, or with sequence parallelism this tp rank's share of them.
  /// Each tp rank routes its own share in any case; what it takes for itself comes together again at the end.
  /// Collective over the ep, etp, tp and cp groups.
  Output operator()(Tape& t, const Value& x, const Pass& pass) const;

  /// Once a global batch, with the counts of all its tokens: moves the selection bias by bias_rate towards balance
  /// (Wang et al. 2024, Algorithm 1) and remembers the counts for the scope global_batch.
  void finish_batch(const std::vector<int64_t>& global_counts);

 private:
  /// The first of the micro-batch's rows that this rank routes.
  int64_t first_row(const Tensor& ids) const { return tensor_.group->rank() * ids.dim(0); }
  Tensor segments(const Pass& pass, const Tensor& ids, int64_t scope_tokens) const;
  Value penalty(Tape& t, const Value& logits, const Value& scores, const Tensor& ids, const Pass& pass) const;
  Tensor expert_fractions(const Tensor& ids, const Tensor& segment, int64_t scopes, Stream& stream) const;
  void mask_padding(const Tensor& ids, const Pass& pass) const;
  void count(const Tensor& ids, const Pass& pass) const;

  const MoeConfig config_;
  int64_t index_, moe_layers_;
  tp::TensorParallel tensor_;
  const comm::ProcessGroup *ep_, *etp_, *tokens_;
  Parameter* router_;
  Experts experts_;
  std::unique_ptr<FeedForward> shared_;
  std::unique_ptr<RoutingOverride> override_;
  Tensor bias_;             // [E]: added to scores in the selection; undefined when bias_rate is 0
  Tensor previous_counts_;  // [E]: of the last global batch; undefined unless the scope is global_batch
};

}  // namespace hexad::moe
