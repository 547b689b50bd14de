// What a rank will need, before it is tried.
#pragma once

#include "tools/hexad/recipe.h"

namespace hexad::app {

/// Bytes.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

/// Weights in the model's dtype, gradients, main weights and moments in f32 (f64 in an f64 run), experts over ep.
/// Activations are what the ops save for backward under `recompute`, with every expert equally loaded.
MemoryEstimate estimate_memory(const Recipe& recipe);

}  // namespace hexad::app
