// Expert activations that forward makes and backward reads.
#pragma once

#include "layers/moe/experts/expert_weights.h"

namespace hexad::moe {

/// Activations of one chunk, or of all chunks if they are computed together. C is the number of computed rows, D the
/// hidden size.
struct ChunkActivations {
  Tensor inputs;                  // T_DI, [C, D]: inputs of the experts
  ExpertActivations activations;  // T_M: activations inside the experts
  Tensor results;                 // T_DO, [C, D]: results of the experts; undefined if rows belong to slots

  /// Calls f(tensor) for each tensor, in the order of the members. A tensor may be undefined.
  template <class F>
  void each(const F& f) {
    f(inputs), f(activations.gate_up), f(activations.activated), f(activations.weights), f(results);
  }
};

}  // namespace hexad::moe
