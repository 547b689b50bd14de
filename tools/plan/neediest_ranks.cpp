#include "tools/plan/neediest_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_on_meta.h"
#include "tools/plan/step_record.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// Relation of the memory of stages with equal layers, from the first to the last of them.
enum class Memory : uint8_t { unknown, falls, is_convex };

Memory memory_along_the_pipeline(const Recipe& r, const mesh::Layout& layout, const RoutingLoad& load) {
  const bool known = r.parallel.pp > 1 && has_equal_passes(r, load) && load != RoutingLoad::given &&
                     r.optim.freeze.empty() && !r.offload.activations && runs_whole_micro_batches(r);
  if (!known) return Memory::unknown;
  const pp::PipelineKind kind = train::pipeline_of(r).kind;
  if (kind == pp::PipelineKind::one_f_one_b) return Memory::falls;
  // With few micro-batches, some stages never have as many in flight as they could.
  const bool many = micro_batches_of(r, layout) >= 2 * r.parallel.pp;
  return kind == pp::PipelineKind::zb_h1 && many ? Memory::is_convex : Memory::unknown;
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
  const Memory memory = memory_along_the_pipeline(r, layout, load);
  if (memory == Memory::unknown) return stages;
  const pp::StageSplit split(pp::stage_map(train::pipeline_of(r), static_cast<int>(r.parallel.pp)),
                             r.schedule.pipeline.split, {.layers = std::vector<double>(r.model.layers)});
  // Without connections between cards, the nodes have no effect.
  const int ranks_per_node = imagined_cards(r, layout.world()) ? usual_ranks_per_node : 1;
  std::map<std::vector<int64_t>, std::vector<size_t>> stages_of_kind;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const pp::StageSplit::Layers layers = split.layers(static_cast<int>(stage), 0);
    stages_of_kind[kind_of(stages[stage].front(), layers, r, layout, ranks_per_node)].push_back(stage);
  }
  std::set<size_t> neediest;
  for (const auto& [kind, equal] : stages_of_kind) {
    neediest.insert(equal.front());
    if (memory == Memory::is_convex) neediest.insert(equal.back());
  }
  std::vector<std::vector<int>> ranks;
  for (const size_t stage : neediest) ranks.push_back(std::move(stages[stage]));
  return ranks;
}

}  // namespace hexad::plan
