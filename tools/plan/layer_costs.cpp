#include "tools/plan/layer_costs.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/ordinal.h"
#include "parallel/pp/program_check.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using device::Category;
using train::Recipe;

namespace {

// Returns the settings on which the costs of a layer depend, as a key.
std::string layer_key(const Recipe& r) {
  const train::ParallelConfig& p = r.parallel;
  return fmt::format("{} {} {} {} {} {} {} {}", p.tp, p.cp, static_cast<int>(p.cp_kind), p.ep, p.etp.value_or(p.tp),
                     r.batch.micro, static_cast<int>(r.recompute), p.zero);
}

// Layers after which the model repeats its kinds of layers.
int64_t period(const Recipe& r) { return r.model.moe.experts > 0 ? r.model.moe.every : 1; }

}  // namespace

LayerCosts::LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world)
    : extensions_(extensions), cluster_(cluster), world_(world) {}

// The ranks of one stage, with a model of one stage: groups of a stage lie on nodes as they do in the whole job,
// because pipeline stages come after the other axes.
LayerCosts::Run LayerCosts::run(const Recipe& recipe, int64_t micro_batches) const {
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(world_));
  const StepPrices prices(cluster_, layout.world());
  RunOnMeta on_meta(recipe, extensions_, layout, 0, RoutingLoad::even, RunOnMeta::Record::issues,
                    prices.node_of_rank());
  on_meta.step(micro_batches);
  const size_t before = on_meta.issues().issues().size();
  const auto& memory = on_meta.instance().context.allocator();
  memory->reset_peaks();
  on_meta.step(micro_batches);
  const StepRecord record = record_since(on_meta.issues(), before, 0);
  const SimulatedStep step = simulate_step(
      std::span(&record, 1), prices.node_of_rank(),
      [&](const StepRecord& r, const device::Issue& issue) { return prices.seconds(r, issue); },
      prices.contention(!recipe.distributed.priority.empty()));
  const device::MemoryStats stats = memory->stats();
  const auto peak = [&](Category c) { return static_cast<double>(stats.peak_in(c)); };
  Run run{step.seconds,
          peak(Category::parameter),
          peak(Category::gradient),
          peak(Category::optimizer),
          peak(Category::activation),
          0};
  run.temporary = std::max(
      0.0, static_cast<double>(stats.peak_total) - run.weights - run.gradients - run.optimizer - run.activations);
  return run;
}

const LayerCosts::Costs& LayerCosts::costs(const PlanCandidate& candidate) {
  const auto [at, is_new] = costs_.try_emplace(layer_key(candidate.recipe));
  if (!is_new) return at->second;
  Recipe r = candidate.recipe;
  r.parallel.pp = 1;
  r.schedule.pipeline = {};
  const int64_t first = r.model.moe.dense_layers, step = period(r);
  const auto of = [&](int64_t periods, int64_t micro_batches) {
    r.model.layers = first + periods * step;
    return run(r, micro_batches);
  };
  // f(1, 1), f(1, 2), f(2, 1), f(2, 2)
  const Run a = of(1, 1), b = of(1, 2), c = of(2, 1), d = of(2, 2);
  const auto linear = [&](double Run::*of_run, double layers) {
    const double aa = a.*of_run, bb = b.*of_run, cc = c.*of_run, dd = d.*of_run;
    Linear l;
    l.layer = (dd - cc - bb + aa) / layers;
    l.by_layer = (cc - aa) / layers - l.layer;
    const double one = static_cast<double>(first) + layers;
    l.micro = bb - aa - one * l.layer;
    l.rest = aa - one * l.by_layer - l.micro - one * l.layer;
    return l;
  };
  const auto layers = static_cast<double>(step);
  at->second = {linear(&Run::seconds, layers),   linear(&Run::weights, layers),     linear(&Run::gradients, layers),
                linear(&Run::optimizer, layers), linear(&Run::activations, layers), d.temporary};
  return at->second;
}

ComposedStep LayerCosts::step(const PlanCandidate& candidate) {
  const Recipe& r = candidate.recipe;
  const Costs& cost = costs(candidate);
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  const auto micro_batches = static_cast<double>(micro_batches_of(r, layout));
  const auto pp = static_cast<double>(r.parallel.pp);
  const double layers = static_cast<double>(r.model.layers) / pp;
  const int chunks = pp::PipelineConfig(train::pipeline_of(r)).chunks_a_rank();
  // The stage with the head takes longest; the bubble is that of its list (Narayanan et al. 2021).
  const double busy = cost.seconds.at(layers, micro_batches);
  const double one = cost.seconds.micro + layers * cost.seconds.layer;
  ComposedStep step;
  step.seconds = busy + (pp - 1) * one / chunks;
  const auto few = static_cast<int>(std::min<int64_t>(static_cast<int64_t>(micro_batches), 4 * r.parallel.pp));
  const std::vector<int> in_flight =
      pp::peak_activations(pp::make_schedule(train::pipeline_of(r), static_cast<int>(r.parallel.pp), few));
  const double kept = static_cast<double>(in_flight.front()) / chunks;
  // Divided state is divided among fewer ranks, in proportion to the stages.
  const auto state = [&](const Linear& bytes, int64_t divided_from) {
    return bytes.at(layers, 1) * (r.parallel.zero >= divided_from ? pp : 1);
  };
  step.memory = state(cost.weights, 3) + state(cost.gradients, 2) + state(cost.optimizer, 1) +
                kept * cost.activations.at(layers, 1) + cost.temporary;
  return step;
}

}  // namespace hexad::plan
