// Splits a recipe's model into pipeline stages.
#pragma once

#include <string>

#include "layers/model_size.h"
#include "parallel/pp/stage_split.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns schedule.pipeline if there are several pipeline stages. With a single stage, returns the default pipeline
/// with the recipe's `overlap`: micro-batches run one after the other, or in overlapping pairs.
inline pp::PipelineConfig pipeline_of(const Recipe& r) {
  if (r.parallel.pp > 1) return r.schedule.pipeline;
  pp::PipelineConfig one;
  one.overlap = r.schedule.pipeline.overlap;
  return one;
}

/// Returns the layers of every virtual stage. Uses schedule.pipeline.split if it is set. Otherwise, balances the FLOPs
/// of the stages, including the head. The FLOPs are counted on a meta device. Throws Error(usage) if the model has
/// fewer layers than virtual stages, or if the split does not fit the model.
pp::StageSplit stage_split(const Recipe& recipe, const layers::Registry& registry);
/// Returns the recipe with stage_split() in schedule.pipeline.split, so that runs of the recipe do not count the FLOPs
/// again.
Recipe with_stage_split(Recipe recipe, const layers::Registry& registry);
/// Returns the same recipe as with_stage_split(). `flops` are the FLOPs of the model's parts (layers::flops_by_part()).
Recipe with_stage_split_of(Recipe recipe, const layers::PartFlops& flops);
/// Returns a readable table with one line for each stage. An example of a line with two virtual stages is "stage 0
/// embedding, layers 0-1 | layers 6-7, head".
std::string stage_table(const Recipe& recipe, const layers::Registry& registry);

}  // namespace hexad::train
