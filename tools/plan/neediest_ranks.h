// Ranks among which the one that needs the most memory is found.
#pragma once

#include <vector>

#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Returns distinct_ranks() without the stages whose memory is known to be at most that of an earlier stage. The rank
/// that needs the most memory, or the first of several such ranks, is in the result. `recipe` must have
/// schedule.pipeline.split if there are several stages (train::with_stage_split()).
///
/// Stages of 1F1B with equal layers differ only in the number of micro-batches in flight, which is larger in the
/// earlier stage. For every moment of a later stage, the earlier stage has a moment with the same pass, the same next
/// pass, and at least as many kept micro-batches. This needs passes that are equal for all micro-batches
/// (has_equal_passes()), and equal places on the nodes, because connections between nodes need other buffers than those
/// inside a node. The first and the last stage are equal to no other stage. Other pipelines keep all stages.
std::vector<std::vector<int>> neediest_ranks(const train::Recipe& recipe, const mesh::Layout& layout,
                                             const RoutingLoad& load);

}  // namespace hexad::plan
