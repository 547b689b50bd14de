#include "tools/plan/schedule_prices.h"

#include <algorithm>
#include <span>

#include "framework/data/digest.h"
#include "framework/schedule/graph_runner.h"
#include "layers/moe/schedule/schedule_rules.h"
#include "tools/plan/rank_graphs.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using moe::MoeSchedule;

// Predicting more than `most_priced` schedules takes seconds. In that case only `most_varied` of them get the other
// values of late choices.
constexpr size_t most_priced = 200, most_varied = 8;

// Appends a rank's graph without names as bytes. Schedules that do the same work in this layout have equal bytes.
void append(std::string& bytes, const schedule::TaskGraph& graph) {
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const schedule::Task& task : graph.tasks()) {
    const schedule::Cost& c = task.spec.cost;
    put(task.spec.lane), put(task.spec.kind), put(c.flops);
    for (const int64_t products : c.products) put(products);
    put(c.wire_bytes), put(c.received_bytes), put(c.copy_bytes), put(c.group_size), put(c.crosses_nodes);
    bytes += c.group;
    put(task.after.size());
    for (const schedule::TaskId before : task.after) put(before);
  }
  put(graph.tasks().size());
}

ScheduleCandidate predicted(const Recipe& recipe, ModelInstance& instance, const Predictor& predictor,
                            const comm::ProcessGroup& world, const MoeSchedule& schedule) {
  ScheduleCandidate candidate{.schedule = schedule};

  schedule::GraphCollector collector;
  // A model without memory still sends real row counts to the other ranks.
  const Device device = instance.device().has_memory() ? instance.device() : instance.device().host();
  if (const auto layers = instance.model.moe_layers(); !layers.empty())
    layers.front().layer->show_passes(rows_of_layer(recipe), train::dtype_of(recipe.train.precision), device,
                                      collector);
  constexpr size_t graphs_of_layer = 3;  // forward, backward, and the gradients that Parm's S1 gathers after the gate
  base::require(collector.graphs.size() <= graphs_of_layer, "[schedule] a layer has ", collector.graphs.size(),
                " graphs");
  collector.graphs.resize(graphs_of_layer);  // a stage with only dense layers has none
  std::vector<double> seconds(world.size());
  for (const schedule::TaskGraph& graph : collector.graphs) {
    const std::vector<schedule::TaskGraph> all = graphs_of_all(graph, world, device);
    std::vector<const schedule::TaskGraph*> graphs;
    for (const auto& g : all) graphs.push_back(&g), append(candidate.graphs, g);
    const auto timelines = simulate(graphs, predictor.rates, predictor.groups, schedule::drive_of(instance.context));
    for (size_t r = 0; r < timelines.size(); ++r) seconds[r] += timelines[r].total();
  }
  // Ranks must agree, even if their groups, and so their rates, differ.
  candidate.predicted =
      world.all_reduce_value(*std::max_element(seconds.begin(), seconds.end()), comm::Reduce::max, device);
  candidate.graphs = data::digest_of(candidate.graphs).to_string();
  return candidate;
}

}  // namespace

double measured_seconds(const std::vector<PassRecorder::Recording>& passes) {
  double sum = 0;
  for (const char* kind : {" forward", " backward", " gradient of shares"}) {
    double seconds = 0;
    int64_t count = 0;
    for (const PassRecorder::Recording& pass : passes)
      if (pass.name.ends_with(kind)) seconds += schedule::measured(pass.graph, pass.times).total(), ++count;
    if (count > 0) sum += seconds / static_cast<double>(count);
  }
  return sum;
}

double ScheduleCandidate::measured_seconds() const {
  if (measured.empty()) return 0;
  std::vector<double> sorted = measured;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

ChunksRange chunks_range(const Recipe& recipe, const train::Extensions& extensions, MemoryNeeds& needs,
                         const MoeSchedule& s) {
  ChunksRange range{2, most_chunks(recipe, extensions, s)};
  std::vector<MoeSchedule> all;  // more chunks need smaller buffers
  for (int64_t n = range.fewest; n <= range.most; ++n) {
    all.push_back(s);
    all.back().chunks = n;
  }
  range.fewest = needs.within(all).schedules.front().chunks;
  return range;
}

int64_t rows_of_layer(const Recipe& r) {
  const int64_t rows = r.batch.micro * r.model.context / r.parallel.cp;
  return r.parallel.sp ? rows / r.parallel.tp : rows;
}

ScheduleCandidate predicted_schedule(const Recipe& recipe, ModelInstance& instance, const Predictor& predictor,
                                     const comm::ProcessGroup& world, const MoeSchedule& schedule) {
  instance.reschedule(schedule);
  return predicted(recipe, instance, predictor, world, schedule);
}

std::vector<ScheduleCandidate> predicted_schedules(const Recipe& recipe, ModelInstance& instance,
                                                   const Predictor& predictor, const comm::ProcessGroup& world,
                                                   const std::vector<MoeSchedule>& allowed) {
  const bool all = allowed.size() <= most_priced;
  const MoeSchedule usual = recipe.schedule.moe.settled();
  std::vector<ScheduleCandidate> candidates;
  const auto price = [&](const MoeSchedule& s) {
    ScheduleCandidate candidate = predicted_schedule(recipe, instance, predictor, world, s);
    // Keeps one of several candidates with equal graphs. Keeps all candidates whose number of chunks is open, because
    // their graphs may differ at another number of chunks.
    const auto twin = std::ranges::find_if(candidates, [&](const ScheduleCandidate& other) {
      return other.graphs == candidate.graphs && !chunks_open(recipe, other.schedule);
    });
    if (twin == candidates.end() || chunks_open(recipe, s)) return candidates.push_back(std::move(candidate));
    if (s == usual) *twin = std::move(candidate);
  };
  for (const MoeSchedule& s : allowed)
    if (all || s == with_late_choices(s, usual)) price(s);
  if (all) return candidates;
  std::vector<ScheduleCandidate> best = candidates;
  std::ranges::stable_sort(best, {}, &ScheduleCandidate::predicted);
  best.resize(std::min(best.size(), most_varied));
  for (const MoeSchedule& s : allowed)
    for (const ScheduleCandidate& b : best)
      if (s != b.schedule && with_late_choices(s, usual) == b.schedule) price(s);
  return candidates;
}

}  // namespace hexad::plan
