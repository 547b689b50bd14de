// Candidates for the rank that needs the most memory.
#pragma once

#include <vector>

#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

struct SharedByRuns;

/// Returns distinct_ranks() without stages that are known to need at most as much memory as another stage of the
/// result. The result contains the rank that needs the most memory, or the first rank if several need equally much.
/// `recipe` must have schedule.pipeline.split if there are several stages (train::with_stage_split()). `shared` keeps
/// checked schedules.
///
/// Stages with equal layers differ only in the tensors that they hold at each action of the pipeline:
/// - A stage is left out if an earlier stage of the result covers it (pp::HeldTensors).
/// - Only the first and the last of these stages are in the result under ZB-H1, with at least twice as many
///   micro-batches as stages. At each moment, one more micro-batch waits for its weight gradients than in the previous
///   stage. One fewer micro-batch waits for its whole backward. The memory at a moment is thus linear in the index of
///   the stage, and the maximum over moments is convex. The second stage lacks one of these moments. At other moments,
///   it needs at least as much memory as it would at the missing moment. The reason is that it keeps one more
///   micro-batch, and a kept micro-batch includes its input.
///
/// This requires all of the following:
/// - All micro-batches have equal passes (has_equal_passes()), and are run in full (runs_whole_micro_batches()).
/// - Equal layers have equal loads and optimizer states.
/// - Activations are not offloaded.
/// - The groups of these stages have equally many ranks on each node. Connections between nodes need other buffers than
///   connections inside a node.
///
/// All stages are in the result if any of these conditions is not known to hold, and under gpipe.
std::vector<std::vector<int>> neediest_ranks(const train::Recipe& recipe, const mesh::Layout& layout,
                                             const RoutingLoad& load, SharedByRuns& shared);

}  // namespace hexad::plan
