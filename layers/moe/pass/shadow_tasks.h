// Tasks of hot experts, whose rows stay on the ranks of their tokens (schedule.moe.hot_experts: shadow).
#pragma once

#include <optional>
#include <vector>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Adds these tasks if the plan has hot experts (ep::HotExperts), otherwise none:
///   shadows.broadcast    every ep rank receives the weights of the hot experts from their ranks
///   shadows.all_reduce   backward: sums the gradients of the shadows over the ep ranks
///   shadows.add          backward: adds the sums to the gradients of the hot experts on their ranks
/// The task shadows.gradients, which computes gradients of shadows, is one of ExpertTasks.
class ShadowTasks {
 public:
  /// Adds tasks to `g`, which must outlive this object, as must `experts`.
  ShadowTasks(PassGraph& g, const Experts& experts);

  /// Adds shadows.broadcast. All tasks that compute experts start after the returned task, which is no_task if the plan
  /// has no hot experts. Call it first, so that the weights are sent before any row. `weights` must outlive the graph.
  TaskId add_broadcast(ExpertWeights& weights);
  /// Returns the gradients of the shadows in a backward pass; null if there are none.
  ShadowGradients* gradients() { return gradients_ ? &*gradients_ : nullptr; }
  /// Adds shadows.all_reduce, which starts after the tasks `after`, and shadows.add. Adds nothing if there are no
  /// gradients.
  void add_reduction(std::vector<TaskId> after);

 private:
  PassGraph& g_;
  const Experts& experts_;
  const comm::ProcessGroup& ranks_;  // ep group
  std::optional<ShadowGradients> gradients_;
};

}  // namespace hexad::moe
