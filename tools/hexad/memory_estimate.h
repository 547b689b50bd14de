// What a rank will need, before it is tried.
#pragma once

#include "tools/hexad/recipe.h"

namespace hexad::app {

/// Bytes.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double buffers = 0;    // of a pass through the experts that restores activations (moe::buffer_bytes)
  double offloaded = 0;  // optimizer states in a file; not part of the total
  double total() const { return weights + gradients + optimizer + activations + buffers; }
};

/// Of rank `rank` of the layout. Weights in the model's dtype with the tables and states that lie with them; gradients,
/// main weights and moments in f32 (f64 in an f64 run); each as ZeRO leaves it. Activations are what the ops of this
/// rank's layers save for the backward of one micro-batch under `recompute` and schedule.moe.restore (auto: until it is
/// chosen), with every expert equally loaded; what is offloaded is not counted. Neither is what is there for a moment
/// only: under ZeRO-2 the gradients of about a unit (distributed.bucket_bytes) on their way to their owners, under
/// ZeRO-3 the weights of two.
MemoryEstimate estimate_memory(const Recipe& recipe, const mesh::Layout& layout, int rank);
/// Of the rank that needs the most, of `world`.
MemoryEstimate estimate_memory(const Recipe& recipe, int64_t world);

/// Of `schedules`, which differ in what they restore, those that a rank may run within memory.limit_bytes; of a recipe
/// without a limit all that keep. Where any that keeps is within the limit those that restore are left out, as
/// restoring takes time; where nothing is, those that need the least remain.
struct WithinMemory {
  std::vector<moe::MoeSchedule> schedules{};
  double kept = 0, least = 0;  // bytes: where all is kept, and the least of all
};
WithinMemory within_memory(const Recipe& recipe, int64_t world, const std::vector<moe::MoeSchedule>& schedules);

}  // namespace hexad::app
