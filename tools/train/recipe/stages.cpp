#include "tools/train/recipe/stages.h"

#include <fmt/format.h>

#include "framework/base/counted.h"

namespace hexad::train {

namespace {

pp::StageSplit split_of(const Recipe& r, const layers::PartFlops& flops) {
  const pp::PipelineConfig pipeline = pipeline_of(r);
  return {pp::stage_map(pipeline, static_cast<int>(r.parallel.pp)),
          pipeline.split,
          {.layers = flops.layers, .head = flops.head}};
}

}  // namespace

pp::StageSplit stage_split(const Recipe& r, const layers::Registry& registry) {
  // The costs have no effect, and remain zero, if the recipe sets the split or there is a single stage.
  layers::PartFlops flops{.layers = std::vector<double>(r.model.layers)};
  if (r.parallel.pp > 1 && r.schedule.pipeline.split.empty()) flops = layers::flops_by_part(r.model, registry);
  return split_of(r, flops);
}

Recipe with_stage_split(Recipe r, const layers::Registry& registry) {
  if (r.parallel.pp > 1) r.schedule.pipeline.split = stage_split(r, registry).counts();
  return r;
}

Recipe with_stage_split_of(Recipe r, const layers::PartFlops& flops) {
  if (r.parallel.pp > 1) r.schedule.pipeline.split = split_of(r, flops).counts();
  return r;
}

std::string stage_table(const Recipe& r, const layers::Registry& registry) {
  const pp::StageSplit split = stage_split(r, registry);
  std::string text = fmt::format("pipeline stages ({})\n", name_of(pipeline_of(r).kind));
  for (int rank = 0; rank < split.stages().ranks; ++rank) {
    text += fmt::format("  {:<18}", fmt::format("stage {}", rank));
    for (int local = 0; local < split.stages().stages_a_rank; ++local) {
      const auto [begin, end] = split.layers(rank, local);
      if (local > 0) text += " | ";
      if (split.has_embedding(rank, local)) text += "embedding, ";
      text += end - begin == 1 ? fmt::format("layer {}", begin) : fmt::format("layers {}-{}", begin, end - 1);
      if (!split.has_head(rank, local)) continue;
      text += ", head";
      if (const int64_t n = r.model.prediction_blocks; n > 0)
        text += fmt::format(", {}", base::counted(n, "prediction block"));
    }
    text += "\n";
  }
  return text;
}

}  // namespace hexad::train
