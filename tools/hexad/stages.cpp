#include "tools/hexad/stages.h"

#include "layers/model_size.h"

namespace hexad::app {

pp::StageSplit stage_split(const Recipe& r) {
  auto flops = layers::flops_by_part(r.model);
  const pp::PipelineConfig pipeline = pipeline_of(r);
  return {pp::stage_map(pipeline, static_cast<int>(r.parallel.pp)),
          pipeline.split,
          {.layers = std::move(flops.layers), .head = flops.head}};
}

}  // namespace hexad::app
