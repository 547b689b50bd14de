// Expert activations in offload memory between forward and backward.
#pragma once

#include <memory>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Activations of one chunk, or of all chunks computed together.
struct ChunkActivations {
  Tensor inputs;                  // T_DI, [C, D]
  ExpertActivations activations;  // T_M
  Tensor results;                 // T_DO, [C, D]

  /// f(tensor) of each, always in this order; some may be undefined.
  template <class F>
  void each(const F& f) {
    f(inputs), f(activations.gate_up), f(activations.product), f(results);
  }
};

/// Holds the offloaded activations of one call: T_DI under S1 and S3, T_M under S1 and S2. Adds
///   offload   moves away what backward needs
///   fetch     brings it back
class OffloadedActivations {
 public:
  OffloadedActivations(ReuseStrategy strategy, const Experts& experts, size_t chunks);

  bool inputs() const { return inputs_; }
  bool activations() const { return activations_; }

  // Forward.
  /// Call it when a chunk is computed; keeps what will be moved, until it is.
  void put(size_t chunk, ChunkActivations made);
  void add_offload(PassGraph& g, size_t chunk, TaskId computed);
  // Backward.
  /// The task, or no_task where nothing is fetched.
  TaskId add_fetch(PassGraph& g, size_t chunk);
  /// Returns a chunk's fetched activations.
  ChunkActivations take(size_t chunk) { return std::exchange(here_[chunk], {}); }

 private:
  Cost moved(const PassGraph& g, size_t chunk) const;

  const bool inputs_, activations_;
  const int64_t activation_width_;
  std::vector<ChunkActivations> here_;  // by chunk: from `experts` to `offload`, from `fetch` to `experts`
  struct Copies {
    std::shared_ptr<autograd::SavedTensor> inputs, gate_up;
  };
  std::vector<Copies> away_;
  std::unique_ptr<autograd::SavePolicy> policy_;
};

}  // namespace hexad::moe
