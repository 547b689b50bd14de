// What a rank will need, before it is tried.
#pragma once

#include "tools/plan/layer_sketch.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

/// Bytes.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // the most that is kept for backward
  double passing = 0;      // what the peak has beside all this: results on their way, scratch, pieces of other ranks
  double offloaded = 0;    // optimizer states in a file; not part of the total
  double blocks = 0;       // the total as memory.limit_bytes counts it: every block rounded up (device::block_size)
  int in_flight = 1;       // micro-batches times chunks whose activations are kept at once
  double total() const { return weights + gradients + optimizer + activations + passing; }
};

/// Of rank `rank` of the layout, at the peak of a step. Weights in the model's dtype with the tables and states that
/// lie with them; gradients, main weights and moments in f32 (f64 in an f64 run); each as ZeRO leaves it. The peak of a
/// step is that of the rank's list of pipeline actions, each as long and as high as the ops of its layers make it under
/// `recompute` and schedule.moe.memory_reuse (auto: until it is chosen); what is offloaded is not counted. Scratch of
/// kernels is not either, and the order in which lanes of their own threads free what chunks of a pass take is taken to
/// be that of the graph.
MemoryEstimate estimate_memory(const train::Recipe& recipe, const mesh::Layout& layout, int rank,
                               RoutingLoad load = RoutingLoad::even);
/// Of `world` ranks the one of each pipeline stage that needs the most.
std::vector<MemoryEstimate> estimate_stages(const train::Recipe& recipe, int64_t world,
                                            RoutingLoad load = RoutingLoad::even);
/// Of the rank that needs the most.
MemoryEstimate estimate_memory(const train::Recipe& recipe, int64_t world, RoutingLoad load = RoutingLoad::even);

}  // namespace hexad::plan
