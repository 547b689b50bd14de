// What the experts made in forward, in offload memory until backward.
#pragma once

#include <memory>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// What the experts of one chunk, or of all together, make in forward.
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

/// Of one call of an MoE layer, as its memory_reuse says: T_DI under S1 and S3, T_M under S1 and S2. Adds
///   offload   what backward needs is moved away      copy
///   fetch     it is brought back                     copy
class OffloadedActivations {
 public:
  OffloadedActivations(ReuseStrategy strategy, const Experts& experts, size_t chunks);

  bool inputs() const { return inputs_; }
  bool activations() const { return activations_; }

  // Forward.
  /// When a chunk is computed; keeps what will be moved, until it is.
  void put(size_t chunk, ChunkActivations made);
  void add_offload(PassGraph& g, size_t chunk, TaskId computed);
  // Backward.
  /// The task, or no_task where nothing is fetched.
  TaskId add_fetch(PassGraph& g, size_t chunk);
  /// What was fetched.
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
