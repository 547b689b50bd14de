// What the forwards and backwards of a pipeline rank have in use, and their course through a step.
#pragma once

#include "parallel/pp/schedule.h"
#include "tools/plan/layer_sketch.h"

namespace hexad::plan {

/// Of one micro-batch in one chunk, each cut where it would hand over to another micro-batch.
struct ChunkPasses {
  std::vector<Stretch> forward, backward;
  std::vector<Stretch> backward_input, backward_weight;  // where weight gradients are delayed
};
ChunkPasses chunk_passes(const train::Recipe& recipe, const mesh::Layout& layout, int stage, int chunk,
                         RoutingLoad load);

/// The most that a rank of `stage` has in use at any time of a step, by its list of actions in `schedule`. Of kept
/// activations and of the sum the moments may differ.
PassBytes peak_of_step(const train::Recipe& recipe, const mesh::Layout& layout, int stage, const pp::Schedule& schedule,
                       RoutingLoad load);

}  // namespace hexad::plan
