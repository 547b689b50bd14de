#include "tools/plan/neediest_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "optim/update_rule.h"
#include "parallel/pp/held_tensors.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/shared_by_runs.h"
#include "tools/plan/step_on_meta.h"
#include "tools/plan/step_record.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// True if equal parameters of different layers have equal states. Patterns can match the parameters of only some
// layers. An optimizer that a program adds can have states for only some parameters.
bool has_equal_states(const optim::OptimConfig& c) {
  const optim::UpdateRules built_in;
  return c.freeze.empty() && c.muon_except.empty() && built_in.find(c.name) != nullptr;
}

// True if the memory of stages with equal layers can be compared by the tensors that they hold.
bool is_comparable(const Recipe& r, const RoutingLoad& load) {
  return r.parallel.pp > 1 && has_equal_passes(r, load) && load != RoutingLoad::given && has_equal_states(r.optim) &&
         !r.offload.activations && runs_whole_micro_batches(r);
}

// True if the first or the last of several stages with equal layers needs the most memory. This is the case under ZB-H1
// with enough micro-batches. With few micro-batches, some stages never have as many micro-batches in flight as they
// could.
bool is_neediest_at_the_ends(const Recipe& r, const mesh::Layout& layout) {
  return train::pipeline_of(r).kind == pp::PipelineKind::zb_h1 && micro_batches_of(r, layout) >= 2 * r.parallel.pp;
}

// Returns a key of everything on which the memory of `rank` depends, except the tensors that it holds at each action.
// The key has the layers of the rank's virtual stages, and the placement of its groups on nodes with `ranks_per_node`
// ranks each. The groups of two stages differ only by an offset of all ranks. Therefore, the rank's index on its node
// determines the placement of its groups.
std::vector<int64_t> kind_of_rank(int rank, int stage, const pp::StageSplit& split, const Recipe& r,
                                  const mesh::Layout& layout, int ranks_per_node) {
  const int node = rank / ranks_per_node;
  const std::vector<int> stages = layout.members(base::Axis::pp, rank);
  std::vector<int64_t> kind{rank % ranks_per_node,
                            std::ranges::count_if(stages, [&](int other) { return other / ranks_per_node == node; }),
                            std::min(ranks_per_node, layout.world() - node * ranks_per_node)};
  for (int local = 0; local < split.stages().stages_a_rank; ++local) {
    const auto [begin, end] = split.layers(stage, local);
    kind.insert(kind.end(), {split.has_embedding(stage, local), split.has_head(stage, local), end - begin});
    for (int64_t layer = begin; layer < end; ++layer) {
      const auto of_layer = r.model.kind_of(layer);
      kind.insert(kind.end(), of_layer.begin(), of_layer.end());
    }
  }
  return kind;
}

// Returns `stages` without the stages that an earlier stage of the list covers (HeldTensors::cover()). `stages` must be
// in ascending order.
std::vector<size_t> uncovered(const std::vector<size_t>& stages, const pp::CheckedSchedule& program) {
  std::vector<size_t> result;
  std::vector<pp::HeldTensors> held;
  for (const size_t stage : stages) {
    pp::HeldTensors mine(program, static_cast<int>(stage));
    if (std::ranges::any_of(held, [&](const pp::HeldTensors& of_earlier) { return of_earlier.cover(mine); })) continue;
    held.push_back(std::move(mine));
    result.push_back(stage);
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> neediest_ranks(const Recipe& r, const mesh::Layout& layout, const RoutingLoad& load,
                                             SharedByRuns& shared) {
  std::vector<std::vector<int>> stages = distinct_ranks(r, layout, load);
  if (!is_comparable(r, load)) return stages;
  const std::optional<int64_t> micro_batches = micro_batches_in_memory(r, layout, load);
  if (!micro_batches) return stages;
  const auto stage_count = static_cast<int>(r.parallel.pp);
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  const pp::StageSplit split = train::stage_split(r, {});  // counts no FLOPs, because the recipe has the split
  // Without connections between cards, the nodes have no effect.
  const int ranks_per_node = imagined_cards(r, layout.world()) ? usual_ranks_per_node : 1;
  std::map<std::vector<int64_t>, std::vector<size_t>> stages_of_kind;
  for (int stage = 0; stage < stage_count; ++stage)
    stages_of_kind[kind_of_rank(stages[stage].front(), stage, split, r, layout, ranks_per_node)].push_back(stage);
  std::set<size_t> neediest;
  const bool at_the_ends = is_neediest_at_the_ends(r, layout);
  for (const auto& [kind, equal] : stages_of_kind) {
    const std::vector<size_t> some =
        at_the_ends ? std::vector<size_t>{equal.front(), equal.back()}
                    : uncovered(equal, shared.schedules.of(pipeline, stage_count, static_cast<int>(*micro_batches),
                                                           freeing_of(r, layout.world())));
    neediest.insert(some.begin(), some.end());
  }
  std::vector<std::vector<int>> ranks;
  for (const size_t stage : neediest) ranks.push_back(std::move(stages[stage]));
  return ranks;
}

}  // namespace hexad::plan
