#include "tools/plan/layer_costs.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/ordinal.h"
#include "parallel/pp/program_check.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/stages.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::plan {

using device::Category;
using train::Recipe;

namespace {

// Returns the settings on which the costs of a layer depend, as a key.
std::string layer_key(const Recipe& r, int64_t stages) {
  const train::ParallelConfig& p = r.parallel;
  return fmt::format("{} {} {} {} {} {} {} {}", p.tp, p.cp, static_cast<int>(p.cp_kind), p.ep, p.etp.value_or(p.tp),
                     static_cast<int>(r.recompute), p.zero, stages);
}

// Layers after which the model repeats its kinds of layers.
int64_t period(const Recipe& r) { return r.model.moe.experts > 0 ? r.model.moe.every : 1; }

// Tokens that a rank has in the longer of the two recorded sequences. Kernels have their full efficiency with them.
constexpr int64_t recorded_tokens = 4096;

}  // namespace

LayerCosts::LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world)
    : extensions_(extensions), prices_(cluster), world_(world) {}

// Returns the number of stages with which a stage's groups are placed on nodes as with the recipe's: once the other
// axes fill a node, more stages change nothing but the number of ranks that share state.
int64_t LayerCosts::stages_that_count(const Recipe& r) const {
  const train::ParallelConfig& p = r.parallel;
  const int64_t inner = std::max<int64_t>(1, p.ep * p.etp.value_or(p.tp) / p.tp);
  return std::min(p.pp, std::max<int64_t>(1, prices_.ranks_per_node() / (p.tp * inner * p.cp)));
}

// Runs the model as the first of `stages` stages, with one sequence a micro-batch. Attention is priced at the length of
// the recipe.
LayerCosts::Run LayerCosts::run(const Recipe& recipe, int64_t stages, int64_t micro_batches, int64_t context) const {
  Recipe r = recipe;
  r.model.context = context;
  r.batch.micro = 1;
  r.parallel.pp = stages;
  const mesh::Layout whole(r.parallel.sizes(), static_cast<int>(world_));
  std::vector<int> nodes;  // of the stage's ranks, in the order of their numbers
  for (int rank = 0; rank < whole.world(); ++rank)
    if (whole.coordinate(base::Axis::pp, rank) == 0) nodes.push_back(static_cast<int>(rank / prices_.ranks_per_node()));
  r.parallel.pp = 1;
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(nodes.size()));
  const StepPrices prices(prices_, nodes);
  RunOnMeta on_meta(r, extensions_, layout, 0, RoutingLoad::even, RunOnMeta::Record::issues, prices.node_of_rank());
  // Under ZeRO-3, a first step records the order in which weights are used.
  if (r.parallel.zero == 3) on_meta.step(micro_batches);
  const size_t before = on_meta.issues().issues().size();
  const auto& memory = on_meta.instance().context.allocator();
  memory->reset_peaks();
  on_meta.step(micro_batches);
  const StepRecord record = record_since(on_meta.issues(), before, 0);
  const RecordPrices priced(prices, record);
  const auto price = [&](const StepRecord&, const device::Issue& issue) { return priced.seconds(issue); };
  const SimulatedStep step = simulate_step(std::span(&record, 1), prices.node_of_rank(), price,
                                           prices.contention(train::priorities_of(r.distributed)));
  double recorded_attention = 0, attention = 0;
  const double longer = static_cast<double>(recipe.model.context) / static_cast<double>(context);
  for (device::Issue issue : record.issues) {
    auto* work = std::get_if<device::AttentionWork>(&issue.work);
    if (!work) continue;
    recorded_attention += priced.seconds(issue);
    work->flops *= longer * longer;
    work->keys = static_cast<int64_t>(static_cast<double>(work->keys) * longer);
    attention += priced.seconds(issue);
  }
  const device::MemoryStats stats = memory->stats();
  const auto peak = [&](Category c) { return static_cast<double>(stats.peak_in(c)); };
  Run run{.seconds = std::max(0.0, step.seconds - recorded_attention),
          .attention_seconds = attention,
          .weights = peak(Category::parameter),
          .gradients = peak(Category::gradient),
          .optimizer = peak(Category::optimizer),
          .activations = peak(Category::activation),
          .temporary = 0};
  // Connections of NCCL are counted here: they are the same for any number of tokens.
  run.temporary = std::max(
      0.0, static_cast<double>(stats.peak_total) - run.weights - run.gradients - run.optimizer - run.activations);
  return run;
}

const LayerCosts::Probe& LayerCosts::probe(const PlanCandidate& candidate) {
  const int64_t stages = stages_that_count(candidate.recipe);
  const auto [at, is_new] = probes_.try_emplace(layer_key(candidate.recipe, stages));
  if (!is_new) return at->second;
  Recipe r = candidate.recipe;
  r.schedule.pipeline = {};
  const int64_t unit = 2 * r.parallel.cp * r.parallel.tp;
  const int64_t longer = std::min(r.model.context, recorded_tokens * r.parallel.cp) / (2 * unit) * (2 * unit);
  Probe probe{.context = {longer / 2, longer}, .runs = {}};
  if (longer == 0) probe.context = {r.model.context, r.model.context};
  for (size_t length = 0; length < probe.context.size(); ++length)
    for (int i = 0; i < 4; ++i) {
      r.model.layers = r.model.moe.dense_layers + (1 + i / 2) * period(r);
      probe.runs[length][i] = run(r, stages, 1 + i % 2, probe.context[length]);
    }
  return at->second = probe;
}

// Extrapolates the runs to the tokens of the candidate's micro-batches.
LayerCosts::Runs LayerCosts::at(const PlanCandidate& candidate) {
  const Probe& p = probe(candidate);
  const Recipe& r = candidate.recipe;
  const auto tokens = static_cast<double>(r.batch.micro * r.model.context);
  const auto shorter = static_cast<double>(p.context[0]), longer = static_cast<double>(p.context[1]);
  const double times = longer > shorter ? (tokens - shorter) / (longer - shorter) : 1;
  Runs runs = p.runs[1];
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run &less = p.runs[0][i], &more = p.runs[1][i];
    for (double Run::*value : {&Run::seconds, &Run::activations, &Run::temporary})
      runs[i].*value = less.*value + (more.*value - less.*value) * times;
    runs[i].attention_seconds = more.attention_seconds * static_cast<double>(r.batch.micro);
  }
  return runs;
}

// Returns the micro-batches times chunks whose activations the first stage keeps.
double LayerCosts::in_flight(const Recipe& r, int64_t micro_batches) {
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  const auto few = static_cast<int>(std::min<int64_t>(micro_batches, 4 * r.parallel.pp));
  const auto [at, is_new] =
      in_flight_.try_emplace({static_cast<int>(pipeline.kind), static_cast<int>(pipeline.chunks), r.parallel.pp, few});
  if (is_new)
    at->second = pp::peak_activations(pp::make_schedule(pipeline, static_cast<int>(r.parallel.pp), few)).front();
  return at->second;
}

ComposedStep LayerCosts::step(const PlanCandidate& candidate) {
  const Recipe& r = candidate.recipe;
  const Runs runs = at(candidate);
  const auto periods = static_cast<double>(period(r)), first = static_cast<double>(r.model.moe.dense_layers);
  // f(layers, micro-batches) = rest + layers * by_layer + micro_batches * (micro + layers * layer)
  struct Linear {
    double rest, by_layer, micro, layer;
    double at(double layers, double micro_batches) const {
      return rest + layers * by_layer + micro_batches * (micro + layers * layer);
    }
  };
  const auto linear = [&](auto&& value) {
    const double a = value(runs[0]), b = value(runs[1]), c = value(runs[2]), d = value(runs[3]);
    Linear l{};
    l.layer = (d - c - b + a) / periods;
    l.by_layer = (c - a) / periods - l.layer;
    const double one = first + periods;
    l.micro = b - a - one * l.layer;
    l.rest = a - one * l.by_layer - l.micro - one * l.layer;
    return l;
  };
  const Linear seconds = linear([](const Run& run) { return run.seconds + run.attention_seconds; });
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  const auto micro_batches = static_cast<double>(micro_batches_of(r, layout));
  const auto pp = static_cast<double>(r.parallel.pp);
  const double layers = static_cast<double>(r.model.layers) / pp;
  const int chunks = train::pipeline_of(r).chunks_a_rank();
  ComposedStep step;
  // The bubble is that of 1F1B, divided by the chunks of a rank (Narayanan et al. 2021).
  step.seconds = seconds.at(layers, micro_batches) + (pp - 1) * (seconds.micro + layers * seconds.layer) / chunks;

  const double kept = in_flight(r, static_cast<int64_t>(micro_batches)) / chunks;
  // Divided state is divided among fewer ranks, in proportion to the stages. Embedding and head are on different
  // stages.
  const double fewer = pp / static_cast<double>(stages_that_count(r));
  const auto state = [&](double Run::*bytes, int64_t divided_from) {
    const Linear l = linear([&](const Run& run) { return run.*bytes; });
    const double ends = l.rest + l.micro;
    return (ends / (pp > 1 ? 2 : 1) + layers * (l.by_layer + l.layer)) * (r.parallel.zero >= divided_from ? fewer : 1);
  };
  const Linear activations = linear([](const Run& run) { return run.activations; });
  step.memory = state(&Run::weights, 3) + state(&Run::gradients, 2) + state(&Run::optimizer, 1) +
                kept * activations.at(layers, 1) + runs[3].temporary;
  return step;
}

}  // namespace hexad::plan
