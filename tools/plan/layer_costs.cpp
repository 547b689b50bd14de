#include "tools/plan/layer_costs.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "framework/base/ordinal.h"
#include "parallel/pp/program_check.h"
#include "tools/plan/number.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// Returns a key of the settings, except the number of tokens, on which the tensors of a layer depend.
std::string tensor_key(const Recipe& r, int64_t recorded_context) {
  const train::ParallelConfig& p = r.parallel;
  return fmt::format("{} {} {} {} {} {} {}", p.tp, p.cp, static_cast<int>(p.cp_kind), p.ep, p.etp.value_or(p.tp),
                     static_cast<int>(r.recompute), recorded_context);
}

// Returns a key of the settings, except the number of tokens, on which the costs of a layer depend.
std::string layer_key(const Recipe& r, int64_t stages, int64_t recorded_context) {
  return fmt::format("{} {} {}", tensor_key(r, recorded_context), r.parallel.zero, stages);
}

// These functions add `share` times the given costs to `sum`.
void add(FewLayersMemory& sum, double share, const FewLayersMemory& memory) {
  for (double FewLayersMemory::*bytes : {&FewLayersMemory::weights, &FewLayersMemory::gradients,
                                         &FewLayersMemory::optimizer, &FewLayersMemory::activations})
    sum.*bytes += share * (memory.*bytes);
}
void add(FewLayersTimes& sum, double share, const FewLayersTimes& times) {
  for (double FewLayersTimes::*seconds :
       {&FewLayersTimes::micro_batch, &FewLayersTimes::rest, &FewLayersTimes::dp_traffic})
    sum.*seconds += share * (times.*seconds);
}

// Returns a cost as a linear function of the number of layers. `few` has the costs of the models with one and with two
// periods of layers after the dense first layers.
template <class Costs>
LayerCosts::Linear linear(const std::array<Costs, 2>& few, double Costs::*value, const Recipe& r) {
  const auto periods = static_cast<double>(layers_of_period(r)), first = static_cast<double>(r.model.moe.dense_layers);
  const double one = few[0].*value, layer = (few[1].*value - one) / periods;
  return {one - (first + periods) * layer, layer};
}

// Returns the share of the costs of embedding plus head that falls to a stage with the embedding or the head. Usually,
// embedding and head are on different stages. With tied embeddings or prediction blocks, the last stage has the weights
// of both.
double share_of_ends(const Recipe& r) { return r.parallel.pp > 1 && !r.model.embeds_at_the_end() ? 0.5 : 1; }

}  // namespace

LayerCosts::LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world, RoutingLoad load)
    : extensions_(extensions), prices_(cluster), world_(world), load_(mean_layer(std::move(load))) {}

// Returns the number of stages with which a model is recorded. With this number, the groups of a stage are placed on
// nodes as in the recipe. Once the other axes fill a node, more stages change only the number of ranks that share
// state. The result is a power of two, and divides the recipe's number of stages. Therefore, the recorded layout is
// legal if the recipe's layout is legal.
int64_t LayerCosts::stages_that_count(const Recipe& r) const {
  const train::ParallelConfig& p = r.parallel;
  const int64_t inner = std::max<int64_t>(1, p.ep * p.etp.value_or(p.tp) / p.tp);
  const auto fill = static_cast<uint64_t>(std::max<int64_t>(1, prices_.ranks_per_node() / (p.tp * inner * p.cp)));
  return std::gcd(p.pp, static_cast<int64_t>(std::bit_floor(fill)));
}

// Returns the prices of a stage. Layouts that differ only in recomputation or ZeRO share prices. The nodes of the
// stage's ranks do not depend on these settings.
std::shared_ptr<const StepPrices> LayerCosts::prices_of(const Recipe& r, int64_t stages) {
  const train::ParallelConfig& p = r.parallel;
  std::shared_ptr<const StepPrices>& known = prices_of_stages_[{p.tp, p.cp, p.ep, p.etp.value_or(p.tp), stages}];
  if (!known) known = prices_of_stage(r, prices_, world_, stages);
  return known;
}

LayerCosts::Models& LayerCosts::models(const Recipe& r) {
  const int64_t stages = stages_that_count(r);
  const std::array<int64_t, 2> contexts = recorded_contexts(r);
  const std::string key = layer_key(r, stages, contexts[1]);
  if (const auto known = models_.find(key); known != models_.end()) return known->second;
  if (kinds_.empty()) kinds_ = frozen_periods(r, extensions_);
  Models made{.recorded_context = contexts[1], .kinds = {}, .memory = {}, .times = {}};
  for (const FrozenPeriods& kind : kinds_) {
    const auto of_periods = [&](int64_t periods) {
      Recipe few = r;
      few.model.layers = r.model.moe.dense_layers + periods * layers_of_period(r);
      few.optim.freeze = kind.freeze;
      return FewLayers(std::move(few), extensions_, prices_of(r, stages), contexts, load_, shared_);
    };
    made.kinds.push_back({of_periods(1), of_periods(2)});
  }
  return models_.emplace(key, std::move(made)).first->second;
}

const LayerCosts::Memory& LayerCosts::memory_of_models(const Recipe& r) {
  Models& known = models(r);
  const auto [at, is_new] = known.memory.try_emplace({r.batch.micro, r.model.context});
  if (!is_new) return at->second;
  Memory& memory = at->second;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const std::array<FewLayers, 2>& of_kind = known.kinds[k];
    for (size_t m = 0; m < of_kind.size(); ++m)
      add(memory.models[m], kinds_[k].share, of_kind[m].memory(r.batch.micro, r.model.context));
    memory.temporary = std::max(memory.temporary, temporary(of_kind[1], r, known.recorded_context));
  }
  return memory;
}

// Frees the simulations of models with other tp and cp. A search goes through the layouts by tp and cp, and all
// simulations together would need much memory.
void LayerCosts::free_other_simulations(const Recipe& r) {
  const std::pair sizes(r.parallel.tp, r.parallel.cp);
  if (std::exchange(simulated_, sizes) == sizes) return;
  for (auto& [key, of_settings] : models_)
    for (std::array<FewLayers, 2>& of_kind : of_settings.kinds)
      for (FewLayers& few : of_kind) few.free_simulation();
}

const LayerCosts::Times& LayerCosts::times_of_models(const Recipe& r) {
  Models& known = models(r);
  const int64_t stages = r.parallel.pp / stages_that_count(r);
  const auto [at, is_new] = known.times.try_emplace({{r.batch.micro, r.model.context}, stages});
  if (!is_new) return at->second;
  free_other_simulations(r);
  for (size_t k = 0; k < kinds_.size(); ++k)
    for (size_t m = 0; m < at->second.size(); ++m)
      add(at->second[m], kinds_[k].share, known.kinds[k][m].times(r.batch.micro, r.model.context, stages));
  return at->second;
}

// Returns the bytes of temporary memory of a micro-batch of the recipe.
double LayerCosts::temporary(const FewLayers& layers, const Recipe& r, int64_t recorded_context) {
  const auto tokens = static_cast<double>(r.batch.micro * r.model.context);
  const std::optional<double> block = tokens_of_loss_block(r, recorded_context, tokens);
  if (!block || tokens <= *block) return layers.temporary(tokens);
  const auto [growth, is_new] = growth_.try_emplace(tensor_key(r, recorded_context));
  if (is_new) growth->second = layers.growth_of_layers();
  return std::max(layers.temporary(*block), layers.temporary(0) + growth->second * tokens);
}

// Returns the number of pairs of a micro-batch and a virtual stage whose activations the first rank of the pipeline
// keeps at the same time.
double LayerCosts::in_flight(const Recipe& r, int64_t micro_batches) {
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  const auto few = static_cast<int>(std::min<int64_t>(micro_batches, 4 * r.parallel.pp));
  const auto [at, is_new] = in_flight_.try_emplace(
      {static_cast<int>(pipeline.kind), static_cast<int>(pipeline.virtual_stages), r.parallel.pp, few});
  if (is_new)
    at->second = pp::peak_activations(pp::make_schedule(pipeline, static_cast<int>(r.parallel.pp), few)).front();
  return at->second;
}

// Returns the pipeline stages into which a run of the recipe would divide the model, one for each rank of the pipeline.
const std::vector<LayerCosts::Stage>& LayerCosts::stages_of(const Recipe& r) {
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  const auto [at, is_new] = stages_.try_emplace(
      {r.parallel.pp, static_cast<int64_t>(pipeline.kind), pipeline.stages_a_rank(), r.model.context});
  std::vector<Stage>& stages = at->second;
  if (!is_new) return stages;
  if (r.parallel.pp == 1) {
    stages.push_back({.layers = r.model.layers, .has_head = true});
    return stages;
  }
  const pp::StageSplit split = train::stage_split(shared_->divided(r, extensions_), extensions_);
  for (int rank = 0; rank < static_cast<int>(r.parallel.pp); ++rank) {
    Stage& stage = stages.emplace_back();
    for (int local = 0; local < pipeline.stages_a_rank(); ++local) {
      stage.layers += split.layers(rank, local).count();
      stage.has_head |= split.has_head(rank, local);
    }
  }
  return stages;
}

// Returns the seconds that the slowest stage takes for a micro-batch. Adds `costs.ends` to the stage of the head,
// because the embedding takes little time.
double LayerCosts::slowest_stage(const Linear& costs, const Recipe& r) {
  double slowest = 0;
  for (const Stage& stage : stages_of(r))
    slowest = std::max(slowest, number(stage.layers) * costs.layer + (stage.has_head ? costs.ends : 0));
  return slowest;
}

double LayerCosts::seconds(const PlanCandidate& candidate) {
  const Recipe& r = candidate.recipe;
  const Times& few = times_of_models(r);
  const auto pp = static_cast<double>(r.parallel.pp);
  const double layers = static_cast<double>(r.model.layers) / pp;
  const Linear micro_batch = linear(few, &FewLayersTimes::micro_batch, r), rest = linear(few, &FewLayersTimes::rest, r),
               dp_traffic = linear(few, &FewLayersTimes::dp_traffic, r);
  const int stages_a_rank = train::pipeline_of(r).stages_a_rank();
  const double ends = share_of_ends(r);
  // A micro-batch takes at least the time of its dp communication. This limit is applied here, because the short
  // recorded steps do not show it.
  const double steady = std::max(slowest_stage(micro_batch, r), ends * dp_traffic.ends + layers * dp_traffic.layer);
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  const auto micro_batches = static_cast<double>(micro_batches_of(r, layout));
  // The bubble is the bubble of 1F1B divided by the number of virtual stages of a rank (Narayanan et al. 2021).
  return ends * rest.ends + layers * rest.layer + steady * micro_batches +
         micro_batch.at(number(r.model.layers)) / pp * (pp - 1) / stages_a_rank;
}

double LayerCosts::memory(const PlanCandidate& candidate) {
  const Recipe& r = candidate.recipe;
  const auto& [few, temporary_bytes] = memory_of_models(r);
  const auto pp = static_cast<double>(r.parallel.pp);
  const double layers = number(std::ranges::max(stages_of(r), {}, &Stage::layers).layers);
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  const double kept = in_flight(r, micro_batches_of(r, layout)) / train::pipeline_of(r).stages_a_rank();
  // With more stages, fewer ranks share the divided state, so each rank holds more of this state.
  const double fewer = pp / static_cast<double>(stages_that_count(r));
  const auto state = [&](double FewLayersMemory::*bytes, int64_t divided_from) {
    const Linear l = linear(few, bytes, r);
    return (l.ends * share_of_ends(r) + layers * l.layer) * (r.parallel.zero >= divided_from ? fewer : 1);
  };
  // The activations of the head, and of the one block that is being recomputed, exist for one micro-batch at a time.
  const Linear activations = linear(few, &FewLayersMemory::activations, r);
  return state(&FewLayersMemory::weights, 3) + state(&FewLayersMemory::gradients, 2) +
         state(&FewLayersMemory::optimizer, 1) + activations.ends + kept * layers * activations.layer + temporary_bytes;
}

}  // namespace hexad::plan
