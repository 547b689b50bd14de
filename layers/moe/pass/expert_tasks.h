// Tasks of a pass that compute the routed and the shared experts, on the compute lane. Other tasks here are for hot
// experts, whose rows remain on the ranks of their tokens (schedule.moe.hot_experts: shadow).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/moe/pass/dispatch.h"

namespace hexad::moe {

/// Results of the experts on this rank, grouped by local expert.
struct Computed {
  TaskId by = no_task;
  Handoff<Rows> results;
};

/// Matrix products and tensor-parallel transfers of the shared experts and of the dense MLP of
/// model.moe.dense_residual.
struct SharedCost {
  double flops = 0;                          // mean FLOPs of a matrix product
  schedule::ByGemmPass<int64_t> products{};  // counted as in Experts::products()
  std::vector<schedule::Transfer> transfers{};
};

/// Work of the shared experts, and of the dense MLP of model.moe.dense_residual, on this rank's own tokens
/// (schedule.moe.shared). The work runs as a task of the pass while rows are in flight, or alone before or after the
/// pass. It includes the transfers of these MLPs in the tp group if tp > 1 (tp::column_linear, tp::row_linear). These
/// transfers are posted from the compute lane, whose stream waits for them, and are not tasks. Simulations add their
/// times to the time of the products, although some transfers overlap with products.
struct SharedWork {
  std::function<void()> compute{};  // runs on the compute lane's stream; empty: no work
  SharedCost cost{};
  std::vector<schedule::Transfer> backward_transfers{};  // transfers in the pullbacks of forward's ops
};

/// Adds these tasks:
///   shared_experts     does the work of SharedWork while rows are in flight
///   experts            computes the experts of one chunk, or of all chunks together
///   weight_gradients   computes the experts' weight gradients, divided like the tasks `experts`
///   shadows.gradients  computes the weight gradients of the shadows (ShadowTasks), divided like the tasks `experts`
class ExpertTasks {
 public:
  /// Adds tasks to `g`, which must outlive this object. `flops_per_row` is the number of floating-point operations per
  /// row of one matrix product. `products` is the number of matrix products per expert in a task `experts`, counted as
  /// in Experts::products().
  ExpertTasks(PassGraph& g, double flops_per_row, const schedule::ByGemmPass<int64_t>& products);

  /// Adds the task shared_experts. Call this function after adding the dispatches that precede the first chunk's
  /// experts. Do not add tasks of the compute lane that wait for rows before this call.
  void add_shared(SharedWork shared);
  /// Adds the task `experts` of a chunk, which starts when the rows have arrived and the tasks `after` are done.
  /// `compute` maps the chunk's grouped rows [C, D] to their results [C, D].
  void add(size_t chunk, Arrived arrived, std::vector<TaskId> after, std::function<Rows(Stream&, Rows)> compute);
  /// Adds the task weight_gradients of a chunk. Call this function after add() for the same chunk. `products` is the
  /// number of matrix products per expert.
  void add_weight_gradients(size_t chunk, int64_t products, std::function<void(Stream&)> compute);
  /// Adds the task shadows.gradients of a chunk, and returns it. The arguments and conditions are the same as in
  /// add_weight_gradients().
  TaskId add_shadow_gradients(size_t chunk, int64_t products, std::function<void(Stream&)> compute);
  /// Returns the results of a chunk, or of all chunks that are computed together.
  Computed computed(size_t chunk) const { return computed_[g_.counts.merged ? 0 : chunk]; }

 private:
  Cost cost(size_t chunk, std::span<const int64_t> offsets, const schedule::ByGemmPass<int64_t>& products,
            double share) const;
  double share_beside() const;
  double share_of_chunks() const;
  static schedule::TaskWork capped(double share, std::function<void(Stream&)> work);
  std::string name(std::string_view stage, size_t chunk) const;

  PassGraph& g_;
  const double flops_per_row_;
  const schedule::ByGemmPass<int64_t> products_;
  std::vector<Computed> computed_;
};

/// Adds the following tasks if the routing plan has hot experts (ep::HotExperts), and otherwise none:
///   shadows.broadcast        every ep rank receives the weights of the hot experts from their ranks
///   shadows.reduce_scatter   backward: sums the gradients of the shadows over the ep ranks; each rank receives a part
///   shadows.a2a              backward: sends the parts to the ranks of the hot experts
///   shadows.add              backward: adds the sums to the gradients of the hot experts on their ranks
/// ExpertTasks adds the task shadows.gradients, which computes the gradients of shadows.
class ShadowTasks {
 public:
  /// Adds tasks to `g`. `g` and `experts` must outlive this object.
  ShadowTasks(PassGraph& g, const Experts& experts);

  /// Adds shadows.broadcast and returns it; returns no_task if the routing plan has no hot experts. All tasks that
  /// compute experts must start after the returned task. Call this function before any row is sent, so that the weights
  /// are sent first. `weights` must outlive the graph.
  TaskId add_broadcast(ExpertWeights& weights);
  /// Returns the gradients of the shadows in a backward pass; null if there are none.
  ShadowGradients* gradients() { return gradients_ ? &*gradients_ : nullptr; }
  /// Adds shadows.reduce_scatter, which starts after the tasks `after`, then shadows.a2a and shadows.add. Adds none of
  /// them if there are no gradients.
  void add_reduction(std::vector<TaskId> after);

 private:
  PassGraph& g_;
  const Experts& experts_;
  const comm::ProcessGroup& ranks_;  // ep group
  std::optional<ShadowGradients> gradients_;
};

}  // namespace hexad::moe
