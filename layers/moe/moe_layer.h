// The mixture-of-experts layer: router, routing plan, experts and losses.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/dense/linear.h"
#include "layers/dense/mlp.h"
#include "layers/moe/experts/experts.h"
#include "layers/moe/pass/moe_pass.h"
#include "layers/moe/router/router.h"
#include "layers/moe/router/router_statistics.h"
#include "layers/moe/router/routing_override.h"

namespace hexad::moe {

using layers::FeedForward;

class MoeLayer {
 public:
  /// Arguments of the constructor. The layer copies the values that it keeps.
  struct Spec {
    const ModelConfig& model;
    int64_t layer;                    // index of the block in the model
    int64_t index;                    // index among the MoE layers of the model
    const RouterDeclaration& router;  // declaration of the router that model.moe.router names
    const MoeSchedule& schedule;
    const IssueOrder& order;  // issue order named by schedule.order
  };
  MoeLayer(const Spec& s, const Builder& b);

  struct Output {
    Value y;           // shape of x; includes the addends
    Value aux_losses;  // this rank's addend of the weighted auxiliary losses, [1] in the accumulator dtype; its data is
                       // undefined if all losses are off, and in evaluation
  };
  /// Dense MLP of model.moe.dense_residual, and its input, which has the shape of x. The MLP runs together with the
  /// shared experts (schedule.moe.shared).
  struct Dense {
    const FeedForward* mlp = nullptr;  // null: there is no dense MLP
    Value input{};
  };
  /// Computes the output for x [rows, D]. x has all rows of the micro-batch on this rank or, with sequence parallelism,
  /// this tp rank's share of them. The schedule decides whether each tp rank routes all rows or only its share. The
  /// result is the same in both cases. `addends` have the shape and dtype of x. The sum of each token's results
  /// includes the addends and the result of `dense`. Collective over the ep, etp, tp and cp groups.
  Output operator()(Tape& t, const Value& x, const ForwardContext& context, std::vector<Value> addends,
                    const Dense& dense) const;
  Output operator()(Tape& t, const Value& x, const ForwardContext& context, std::vector<Value> addends = {}) const {
    return (*this)(t, x, context, std::move(addends), {});
  }

  /// Moves the selection bias by bias_rate towards balance (Wang et al. 2024, Algorithm 1). The bias does not change if
  /// model.moe.routing overrides the choice. Stores the counts for scope global_batch. Call this function once per
  /// global batch, with the counts of all tokens of that batch.
  void finish_batch(const std::vector<int64_t>& global_counts);

  /// Sets the runner of all later passes through the experts; null executes them directly.
  void run_passes_by(schedule::GraphRunner* runner) { settings_.runner = runner; }
  /// Sets the clock that times every later forward and backward; null times none. Forward begins with the router.
  /// Backward begins with the pullback of the pass, and excludes the router's pullbacks.
  void time_by(schedule::LayerClock* clock) { settings_.clock = clock; }
  /// Sets the kernels that convert rows to the wire format; null: the kernels of the device.
  void send_rows_with(const kernels::WireKernels* wire) { settings_.wire_kernels = wire; }
  /// Sets the duels that decide schedule.fused if schedule.fused is unset (auto). If `duels` is null, unset means off.
  /// Has no effect on experts that cannot be fused (Experts::can_fuse).
  void fuse_by(FusedDuels* duels) { settings_.duels = experts_.can_fuse() ? duels : nullptr; }
  /// Replaces the schedule. `order` is the issue order named by s.order. Call this function between steps, with the
  /// same arguments on all ranks.
  void reschedule(const MoeSchedule& s, const IssueOrder& order) { settings_.schedule = s, settings_.order = order; }

 private:
  /// Rows that this rank routes and passes to the experts. `held` is their distribution over the tp ranks:
  ///   apart   all rows of x; each tp rank has different rows
  ///   alike   all rows of x; all tp ranks route the same rows
  ///   share   this rank's share of the rows of x (take_share)
  struct Routed {
    Held held;
    int64_t first;               // index of the first routed row in the micro-batch
    int64_t own_begin, own_end;  // this rank's own rows among the routed rows: a share if `held` is alike, else all
    Tensor own(const Tensor& of_rows) const { return of_rows.slice(0, own_begin, own_end); }
  };
  /// Returns the description of all `rows` rows of x, which are held apart or alike.
  Routed all_rows(int64_t rows) const;
  /// Returns the rows to route. `rows` is the number of rows of x.
  Routed routed(int64_t rows) const;
  /// Returns the result of the shared experts for x. Multiplies the result by the gate if the model has a gate for
  /// shared experts.
  Value shared_result(Tape& t, const Value& x, const ForwardContext& context) const;
  /// Returns the work of the shared experts (if any) and of `dense` (may be null) for `x`. At least one of the two must
  /// exist. `compute` does the work.
  SharedWork shared_work(const Tensor& x, const FeedForward* dense, std::function<void()> compute) const;
  Tensor segments(const ForwardContext& context, const Routed& r, int64_t rows, int64_t scope_tokens, Device device,
                  Stream& stream) const;
  Value aux_losses(Tape& t, const Value& logits, const Value& scores, const Tensor& ids, const Routed& r,
                   const ForwardContext& context, const layers::RouterStatistics::Sums& sums) const;
  bool balances_choices() const;
  Tensor expert_fractions(const Tensor& ids, const Tensor& segment, int64_t scopes, const Tensor& totals,
                          Stream& stream) const;
  void mask_padding(const Tensor& ids, const Routed& r, const ForwardContext& context, Stream& stream) const;
  void drop(const Tensor& ids, const Tensor& scores, const Routed& r, const ForwardContext& context,
            Stream& stream) const;

  const MoeConfig config_;
  int64_t index_, moe_layers_;
  const int64_t dense_width_;  // width of the dense MLP of model.moe.dense_residual
  tp::TensorParallel tensor_;
  const comm::ProcessGroup* tokens_;
  PassSettings settings_;
  const std::string router_name_;   // name of the router's span in traces
  Dtype acc_;                       // dtype of the router's weights, scores and counts
  std::unique_ptr<Router> router_;  // router named by the recipe; top_k is TopKRouter in router/router.cpp
  Experts experts_;
  std::unique_ptr<FeedForward> shared_;
  std::optional<Gate> shared_gate_;
  std::unique_ptr<RoutingOverride> override_;
  Tensor bias_;             // [E]: added to scores in the selection; undefined if the model has no selection bias
  Tensor previous_counts_;  // [E]: counts of the previous global batch; undefined if no balancing loss reads them
};

}  // namespace hexad::moe
