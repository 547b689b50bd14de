// Tasks for hot experts, whose rows remain on the ranks of their tokens (schedule.moe.hot_experts: shadow).
#pragma once

#include <optional>
#include <vector>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Adds the following tasks if the routing plan has hot experts (ep::HotExperts), and otherwise none:
///   shadows.broadcast    every ep rank receives the weights of the hot experts from their ranks
///   shadows.all_reduce   backward: sums the gradients of the shadows over the ep ranks
///   shadows.add          backward: adds the sums to the gradients of the hot experts on their ranks
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
  /// Adds shadows.all_reduce, which starts after the tasks `after`, and then shadows.add. Adds neither if there are no
  /// gradients.
  void add_reduction(std::vector<TaskId> after);

 private:
  PassGraph& g_;
  const Experts& experts_;
  const comm::ProcessGroup& ranks_;  // ep group
  std::optional<ShadowGradients> gradients_;
};

}  // namespace hexad::moe
