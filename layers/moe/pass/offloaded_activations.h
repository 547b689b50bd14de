// Expert activations that are in offload memory between forward and backward.
#pragma once

#include <memory>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Activations of one chunk, or of all chunks if they are computed together.
struct ChunkActivations {
  Tensor inputs;                  // T_DI, [C, D]: inputs of the experts
  ExpertActivations activations;  // T_M: activations inside the experts
  Tensor results;                 // T_DO, [C, D]: results of the experts

  /// Calls f(tensor) for each tensor, in the order of the members. A tensor may be undefined.
  template <class F>
  void each(const F& f) {
    f(inputs), f(activations.gate_up), f(activations.activated), f(activations.weights), f(results);
  }
};

/// Holds the offloaded activations of one call: T_DI with strategies S1 and S3, T_M (only gate_up) with S1 and S2. Adds
/// these tasks:
///   offload   moves activations of a chunk to offload memory
///   fetch     moves activations of a chunk back to the device
class OffloadedActivations {
 public:
  OffloadedActivations(ReuseStrategy strategy, const Experts& experts, size_t chunks);

  bool inputs() const { return inputs_; }
  bool activations() const { return activations_; }

  // The next two functions are for forward.
  /// Stores the activations of a computed chunk that will be offloaded, until the task `offload` moves them.
  void put(size_t chunk, ChunkActivations made);
  /// Adds the task `offload`, which starts after the task `computed`. Returns the task, or no_task if nothing is
  /// offloaded.
  TaskId add_offload(PassGraph& g, size_t chunk, TaskId computed);
  // The next two functions are for backward.
  /// Adds the task `fetch`, which starts after the task `after`. Returns the task, or no_task if nothing was offloaded.
  TaskId add_fetch(PassGraph& g, size_t chunk, TaskId after);
  /// Moves the fetched activations of a chunk to the caller.
  ChunkActivations take(size_t chunk) { return std::exchange(on_device_[chunk], {}); }

 private:
  Cost moved(const PassGraph& g, size_t chunk) const;

  const bool inputs_, activations_;
  const int64_t activation_width_;
  std::vector<ChunkActivations>
      on_device_;  // by chunk; used from `experts` to `offload`, and from `fetch` to `experts`
  struct Copies {
    std::shared_ptr<autograd::SavedTensor> inputs, gate_up;
  };
  std::vector<Copies> offloaded_;
  std::unique_ptr<autograd::SavePolicy> policy_;
};

}  // namespace hexad::moe
