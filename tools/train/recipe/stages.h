// Split of a recipe's model into pipeline stages.
#pragma once

#include <string>

#include "parallel/pp/stage_split.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns schedule.pipeline. With a single stage, micro-batches run one after the other, or in pairs.
inline pp::PipelineConfig pipeline_of(const Recipe& r) {
  if (r.parallel.pp > 1) return r.schedule.pipeline;
  pp::PipelineConfig one;
  one.overlap = r.schedule.pipeline.overlap;
  return one;
}

/// Returns the layers of every virtual stage. Uses schedule.pipeline.split if it is set. Otherwise, balances the stages
/// by FLOPs, including the head, counted on a meta device. Throws Error(usage) if the model has too few layers or the
/// split does not fit.
pp::StageSplit stage_split(const Recipe& recipe, const layers::Registry& registry);
/// Returns a readable table with one line of layers per stage. With two virtual stages: "stage 0   embedding, layers
/// 0-1 | layers 6-7, head".
std::string stage_table(const Recipe& recipe, const layers::Registry& registry);

}  // namespace hexad::train
