// Estimates of a rank's memory, before it is tried.
#pragma once

#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Bytes.
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // the most that is kept for backward
  double passing = 0;      // the rest of the peak: results in flight, scratch, pieces of other ranks
  double offloaded = 0;    // in offload memory, a file or a GPU's host memory; not part of the total
  double total = 0;
  double blocks = 0;  // the total as memory.limit_bytes counts it: every block rounded up (device::block_size)
  int in_flight = 1;  // micro-batches times chunks whose activations are kept at once
};

struct StepOnMeta;
/// Memory as the allocator of `step` counted it.
MemoryEstimate memory_of(const StepOnMeta& step, const train::Recipe& recipe, const mesh::Layout& layout, int rank);
/// Memory of rank `rank` of the layout at the peak of a step, as the allocator of a meta device counts it in the step
/// itself (step_on_meta). Scratch of kernels and of transports is not counted. Lanes run inline: what lanes with
/// threads of their own free sooner or later is taken to be freed in the order of the graph. With auto in
/// schedule.moe, the estimate holds until it is chosen.
MemoryEstimate estimate_memory(const train::Recipe& recipe, const train::Extensions& extensions,
                               const mesh::Layout& layout, int rank, RoutingLoad load = RoutingLoad::even);
/// Memory of the rank that needs the most on each pipeline stage, of `world` ranks.
std::vector<MemoryEstimate> estimate_stages(const train::Recipe& recipe, const train::Extensions& extensions,
                                            int64_t world, RoutingLoad load = RoutingLoad::even);
/// Memory of a held-out evaluation, by pipeline stage: of the rank that needs the most.
std::vector<MemoryEstimate> estimate_evaluation(const train::Recipe& recipe, const train::Extensions& extensions,
                                                int64_t world);
/// Memory of the rank that needs the most.
MemoryEstimate estimate_memory(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                               RoutingLoad load = RoutingLoad::even);

}  // namespace hexad::plan
