// How backward comes by what the experts made in forward: a strategy of two kinds (schedule.moe.memory_reuse; MPMoE's
// memory reusing strategies, Table 2).
#pragma once

#include <memory>
#include <vector>

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

using autograd::Saved;

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

/// Of one call of an MoE layer, from its forward to its backward.
class MemoryReuse {
 public:
  virtual ~MemoryReuse() = default;

  /// What the forward pass has beside what all have.
  virtual void describe_forward(MoePass& pass) const = 0;
  /// Forward, at the end of Ci.
  virtual void keep(size_t chunk, ChunkActivations made) = 0;
  /// Forward, Oi, where describe_forward() has asked for it.
  virtual void offload(Stream& s, size_t chunk) = 0;
  /// After forward: what the tape keeps. x and weights: the op's; `returned`: slot rows [S, D], where there are any.
  virtual std::vector<Tensor> save(const Tensor& x, const Tensor& weights, Tensor returned) = 0;
  /// The op's pullback. `saved`: what save() gave.
  virtual void backward(Backward& b, const Tensor& dout, const Saved& saved) = 0;
};

/// keep.cpp: memory_reuse: none.
std::shared_ptr<MemoryReuse> keep_activations(std::shared_ptr<const PassCall> call);
/// offload_recompute.cpp: S1 to S4.
std::shared_ptr<MemoryReuse> offload_or_recompute(std::shared_ptr<const PassCall> call);

}  // namespace hexad::moe
