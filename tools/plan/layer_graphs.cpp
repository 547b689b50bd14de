#include "tools/plan/layer_graphs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "framework/schedule/graph_runner.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using base::Axis;
using train::Recipe;

namespace {

// Returns the recipe with one stage and one block. The block has experts and no routing override. A step of this recipe
// runs forward once and backward once for each micro-batch.
Recipe with_one_layer(Recipe r) {
  r.model.layers = 1, r.model.prediction_blocks = 0;
  r.model.moe.dense_layers = 0, r.model.moe.every = 1;
  r.model.moe.routing = moe::Routing::model;
  r.parallel.pp = 1, r.parallel.zero = 0;
  r.schedule.pipeline = {};
  r.recompute = layers::Recompute::none;
  r.offload = {};
  return r;
}

// Returns the ranks of the pipeline stage of `rank`, in ascending order. A layout with one stage on these ranks has the
// groups that `layout` has in this stage. A rank's index in the list is its rank number in the layout with one stage.
std::vector<int> stage_of(const mesh::Layout& layout, int rank) {
  const int stage = layout.coordinate(Axis::pp, rank);
  std::vector<int> ranks;
  for (int r = 0; r < layout.world(); ++r)
    if (layout.coordinate(Axis::pp, r) == stage) ranks.push_back(r);
  return ranks;
}

RunOnMeta run_of(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
                 const std::vector<int>& node_of_rank, const RoutingLoad& load) {
  const Recipe r = with_one_layer(recipe);
  const std::vector<int> stage = stage_of(layout, rank);
  std::vector<int> nodes;
  for (const int other : stage) nodes.push_back(node_of_rank[other]);
  return {r,
          extensions,
          mesh::Layout(r.parallel.sizes(), static_cast<int>(stage.size())),
          static_cast<int>(std::ranges::find(stage, rank) - stage.begin()),
          load,
          RunOnMeta::Record::nothing,
          std::move(nodes)};
}

// Returns a flag for each pipeline stage: true if the stage has an MoE layer.
std::vector<bool> stages_with_experts(const Recipe& r, const train::Extensions& extensions) {
  const pp::StageSplit split = train::stage_split(r, extensions);
  std::vector<bool> has(r.parallel.pp, false);
  for (size_t stage = 0; stage < has.size(); ++stage)
    for (int local = 0; local < split.stages().stages_a_rank; ++local) {
      const pp::StageSplit::Layers layers = split.layers(static_cast<int>(stage), local);
      const int64_t end = split.has_head(static_cast<int>(stage), local) ? r.model.blocks() : layers.end;
      for (int64_t layer = layers.begin; layer < end; ++layer)
        if (r.model.is_moe(layer)) has[stage] = true;
    }
  return has;
}

// Appends the nodes of a group's ranks to the key of a class. Nodes are renumbered in the order of their first ranks.
void add_nodes(std::vector<int>& key, const std::vector<int>& ranks, const std::vector<int>& node_of_rank) {
  std::map<int, int> numbers;
  for (const int r : ranks)
    key.push_back(numbers.try_emplace(node_of_rank[r], static_cast<int>(numbers.size())).first->second);
}

// Returns, for each of `ranks` ep ranks, the ep coordinate of the rank that represents it. The busiest rank represents
// itself, and the rank with the median load represents all others.
std::vector<int> stand_ins(const RoutingLoad& load, int ranks) {
  const std::vector<double> slots = slots_of_ranks(load.shares().front(), ranks);
  std::vector<int> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return slots[rank]; });
  std::vector<int> all(slots.size(), order[(order.size() - 1) / 2]);
  all[order.back()] = order.back();
  return all;
}

}  // namespace

LayerOnMeta::LayerOnMeta(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                         int rank, const std::vector<int>& node_of_rank, const RoutingLoad& load)
    : run_(run_of(recipe, extensions, layout, rank, node_of_rank, load)) {}

std::vector<schedule::TaskGraph> LayerOnMeta::graphs(const moe::MoeSchedule& schedule) {
  train::ModelInstance& instance = run_.instance();
  instance.reschedule(schedule);
  schedule::GraphCollector collector;
  instance.run_passes_by(&collector);
  run_.step(1);
  instance.run_passes_by(nullptr);
  return std::move(collector.graphs);
}

LayerGraphs::LayerGraphs(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                         const std::vector<int>& node_of_rank, const RoutingLoad& load) {
  const std::vector<bool> has_experts = stages_with_experts(recipe, extensions);
  std::map<std::vector<int>, size_t> classes;
  std::vector<int> stand_in;  // by ep coordinate; empty: each rank represents itself
  if (load == RoutingLoad::given) stand_in = stand_ins(load, static_cast<int>(recipe.parallel.ep));
  for (int each = 0; each < layout.world(); ++each) {
    const int rank =
        stand_in.empty() ? each : layout.members(Axis::ep, each)[stand_in[layout.coordinate(Axis::ep, each)]];
    std::vector<int> key;
    const bool runs = has_experts[layout.coordinate(Axis::pp, rank)];
    if (runs) {
      for (const Axis axis : {Axis::ep, Axis::etp, Axis::tp}) add_nodes(key, layout.members(axis, rank), node_of_rank);
      add_nodes(key, layout.expert_sharers(rank), node_of_rank);
      if (!stand_in.empty()) key.push_back(layout.coordinate(Axis::ep, rank));
    }
    const auto [at, is_new] = classes.try_emplace(std::move(key), layers_.size());
    class_of_rank_.push_back(at->second);
    if (is_new)
      layers_.push_back(runs ? std::make_unique<LayerOnMeta>(recipe, extensions, layout, rank, node_of_rank, load)
                             : nullptr);
  }
}

std::vector<std::vector<schedule::TaskGraph>> LayerGraphs::graphs(const moe::MoeSchedule& schedule) {
  std::vector<std::vector<schedule::TaskGraph>> all;
  for (const auto& layer : layers_) all.push_back(layer ? layer->graphs(schedule) : std::vector<schedule::TaskGraph>{});
  return all;
}

}  // namespace hexad::plan
