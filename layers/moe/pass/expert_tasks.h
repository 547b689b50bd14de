// The compute lane of a pass: routed and shared experts.
#pragma once

#include <functional>

#include "layers/moe/pass/dispatch.h"

namespace hexad::moe {

/// Results where they were computed, grouped by local expert.
struct Computed {
  TaskId by = no_task;
  Handoff<Rows> results;
};

/// Work of the shared experts on this rank's own tokens while rows of these are in flight.
struct SharedWork {
  std::function<void()> compute{};           // on the compute lane's stream; empty: nothing
  double flops = 0;                          // of one product
  schedule::ByGemmPass<int64_t> products{};  // as Experts::products() counts
};

/// Returns the experts' weights, for a pass to compute with. Ranks take them at the same place of every pass, whatever
/// its rows and chunks. None for a pass that is only looked at.
ExpertWeights hold_weights(const Routes& routes, const Experts& experts, kernels::Direction direction, Stream& s);

/// Adds:
///   shared_experts     the shared experts compute, while rows are in flight
///   experts            the experts of one chunk compute, or of all chunks at once
///   weight_gradients   their weight gradients are computed, while the next chunks travel
class ExpertTasks {
 public:
  /// `g` outlives it. `flops_per_row`: of one product; `products`: of each expert in a task `experts`, as
  /// Experts::products() counts.
  ExpertTasks(PassGraph& g, double flops_per_row, const schedule::ByGemmPass<int64_t>& products);

  /// Adds the task shared_experts. Call it after the sends that precede the first chunk's experts, and before anything
  /// that waits for rows.
  void add_shared(SharedWork shared);
  /// `compute` returns the results [C, D] of a chunk's rows [C, D], which are grouped. It begins when the tasks `after`
  /// are done, too.
  void add(size_t chunk, Arrived arrived, std::vector<TaskId> after, std::function<Rows(Stream&, Rows)> compute);
  /// After add() of the same chunk. `products`: of each expert.
  void add_weight_gradients(size_t chunk, int64_t products, std::function<void(Stream&)> compute);
  /// The results with which a chunk goes on.
  const Computed& computed(size_t chunk) const { return computed_[g_.counts.merged ? 0 : chunk]; }

 private:
  Cost cost(size_t chunk, const schedule::ByGemmPass<int64_t>& products) const;
  schedule::TaskWork beside_communication(std::function<void(Stream&)> work) const;
  schedule::TaskWork beside_chunks(std::function<void(Stream&)> work) const;
  std::string name(std::string_view stage, size_t chunk) const;

  PassGraph& g_;
  const double flops_per_row_;
  const schedule::ByGemmPass<int64_t> products_;
  std::vector<Computed> computed_;
};

}  // namespace hexad::moe
