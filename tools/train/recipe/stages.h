// Cut of a recipe's model into pipeline stages.
#pragma once

#include <string>

#include "parallel/pp/stage_split.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// schedule.pipeline; a single stage needs no more than its micro-batches one after the other, or in pairs.
inline pp::PipelineConfig pipeline_of(const Recipe& r) {
  if (r.parallel.pp > 1) return r.schedule.pipeline;
  pp::PipelineConfig one;
  one.overlap = r.schedule.pipeline.overlap;
  return one;
}

/// The layers of every virtual stage: as schedule.pipeline.split says, else balanced by FLOPs, the head's included, as
/// a run on a meta device counts them. Throws Error(usage) when the model has too few layers or the split does not fit.
pp::StageSplit stage_split(const Recipe& recipe, const layers::Registry& registry);
/// Layers of each stage, for people: a line each, "stage 0   embedding, layers 0-1 | layers 6-7, head" if it holds two
/// virtual stages.
std::string stage_table(const Recipe& recipe, const layers::Registry& registry);

}  // namespace hexad::train
