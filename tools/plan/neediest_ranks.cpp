#include "tools/plan/neediest_ranks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_on_meta.h"
#include "tools/plan/step_record.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// True if the memory of stages with equal layers does not grow from one stage to the next. Excludes settings for which
// this is not known.
bool falls_along_the_pipeline(const Recipe& r, const RoutingLoad& load) {
  return r.parallel.pp > 2 && train::pipeline_of(r).kind == pp::PipelineKind::one_f_one_b &&
         has_equal_passes(r, load) && load != RoutingLoad::given && r.optim.freeze.empty() && !r.offload.activations &&
         runs_whole_micro_batches(r);
}

// Appends what distinguishes layer `layer` from other layers.
void add_layer(std::vector<int64_t>& kind, const layers::ModelConfig& m, int64_t layer) {
  kind.insert(kind.end(),
              {m.is_moe(layer), m.is_delta(layer), m.window_of(layer), m.chunk_of(layer), m.has_rotary(layer)});
}

// Returns everything on which the memory of `rank` depends, except the number of micro-batches in flight: its layers,
// and how its groups are placed on nodes of `ranks_per_node` ranks. The groups of a stage are those of another stage,
// moved by a number of ranks, so the rank's number on its node gives their places.
std::vector<int64_t> kind_of(int rank, pp::StageSplit::Layers layers, const Recipe& r, const mesh::Layout& layout,
                             int ranks_per_node) {
  const int node = rank / ranks_per_node;
  const std::vector<int> stages = layout.members(base::Axis::pp, rank);
  std::vector<int64_t> kind{layers.begin == 0, layers.end == r.model.layers, rank % ranks_per_node,
                            std::ranges::count_if(stages, [&](int other) { return other / ranks_per_node == node; }),
                            std::min(ranks_per_node, layout.world() - node * ranks_per_node)};
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) add_layer(kind, r.model, layer);
  return kind;
}

}  // namespace

std::vector<std::vector<int>> neediest_ranks(const Recipe& r, const mesh::Layout& layout, const RoutingLoad& load) {
  std::vector<std::vector<int>> stages = distinct_ranks(r, layout, load);
  if (!falls_along_the_pipeline(r, load)) return stages;
  const pp::StageSplit split(pp::stage_map(train::pipeline_of(r), static_cast<int>(r.parallel.pp)),
                             r.schedule.pipeline.split, {.layers = std::vector<double>(r.model.layers)});
  // Without connections between cards, the nodes have no effect.
  const int ranks_per_node = imagined_cards(r, layout.world()) ? usual_ranks_per_node : 1;
  std::set<std::vector<int64_t>> kinds;
  std::vector<std::vector<int>> neediest;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const pp::StageSplit::Layers layers = split.layers(static_cast<int>(stage), 0);
    if (kinds.insert(kind_of(stages[stage].front(), layers, r, layout, ranks_per_node)).second)
      neediest.push_back(std::move(stages[stage]));
  }
  return neediest;
}

}  // namespace hexad::plan
