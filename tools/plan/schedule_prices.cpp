#include "tools/plan/schedule_prices.h"

#include <algorithm>
#include <utility>

#include "framework/data/digest.h"
#include "layers/moe/schedule/schedule_rules.h"
#include "tools/plan/granularity_search.h"
#include "tools/plan/layer_graphs.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using moe::MoeSchedule;

// Predicting more than `max_priced` schedules takes seconds. If there are more, only the `max_varied` fastest
// schedules are also predicted with other values of late choices.
constexpr size_t max_priced = 200, max_varied = 8;
// Largest number of ranks that are simulated together. With more ranks, each class of ranks is simulated alone.
constexpr size_t max_ranks_together = 64;

// Appends a value to `bytes`.
template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Appends the bytes of a task without its name and predecessors.
void append(std::string& bytes, const schedule::TaskSpec& task) {
  const auto put = [&](auto value) { hexad::plan::put(bytes, value); };
  const schedule::Cost& c = task.cost;
  put(task.lane), put(task.kind), put(c.flops), put(c.share);
  for (const int64_t products : c.products) put(products);
  put(c.dense), put(c.wire_bytes), put(c.received_bytes), put(c.copy_bytes), put(c.group_size), put(c.crosses_nodes);
  bytes += c.group;
  for (const schedule::Transfer& t : c.transfers) {
    put(t.kind), put(t.wire_bytes), put(t.times), put(t.group_size), put(t.crosses_nodes);
    bytes += t.group;
  }
  put(c.transfers.size());
}

// Appends the bytes of a rank's work. Schedules that do the same work in this layout give equal bytes.
void append(std::string& bytes, const LayerWork& work) {
  for (const schedule::TaskGraph& graph : work.graphs) {
    for (const schedule::Task& task : graph.tasks()) {
      append(bytes, task.spec);
      put(bytes, task.after.size());
      for (const schedule::TaskId before : task.after) put(bytes, before);
    }
    put(bytes, graph.tasks().size());
  }
  for (const schedule::TaskSpec& task : work.outside) append(bytes, task);
  put(bytes, work.outside.size());
}

schedule::Drive drive_of(const Recipe& r, const MoeSchedule& s) {
  const bool threads = r.device != device::DeviceKind::cpu || r.schedule.lanes_have_threads(s);
  return threads ? schedule::Drive::threads : schedule::Drive::caller;
}

// Returns the kinds and groups of a graph's collectives, in the order of the graph.
std::vector<std::pair<schedule::TaskKind, std::string>> collectives(const schedule::TaskGraph& graph) {
  std::vector<std::pair<schedule::TaskKind, std::string>> all;
  for (const schedule::Task& task : graph.tasks())
    if (schedule::is_communication(task.spec.kind)) all.emplace_back(task.spec.kind, task.spec.cost.group);
  return all;
}

// True if all classes that have graphs have the same collectives. Under a memory limit, the collectives may differ: the
// number of chunks depends on the numbers of rows, which may differ slightly between classes.
bool may_meet(const std::vector<LayerWork>& of_class) {
  const LayerWork* first = nullptr;
  for (const LayerWork& work : of_class) {
    if (work.graphs.empty()) continue;
    if (!first) first = &work;
    if (!std::ranges::equal(work.graphs, first->graphs, {}, collectives, collectives)) return false;
  }
  return true;
}

// Returns the seconds of the slowest class. Simulates the ranks of each class alone.
double slowest_alone(const std::vector<LayerWork>& of_class, const Predictor& predictor, schedule::Drive drive) {
  double slowest = 0;
  for (const LayerWork& work : of_class) {
    double seconds = work.seconds_outside(predictor.rates);
    for (const schedule::TaskGraph& graph : work.graphs) seconds += simulate(graph, predictor.rates, drive).total();
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

// Returns the seconds of the slowest rank. Simulates all ranks together, one pass after the other.
double slowest_together(const std::vector<LayerWork>& of_class, const std::vector<size_t>& class_of_rank,
                        const Predictor& predictor, schedule::Drive drive) {
  size_t passes = 0;
  for (const LayerWork& work : of_class) passes = std::max(passes, work.graphs.size());
  const schedule::TaskGraph none;  // graph of stages that have only dense layers
  std::vector<double> seconds;
  for (const size_t c : class_of_rank) seconds.push_back(of_class[c].seconds_outside(predictor.rates));
  for (size_t pass = 0; pass < passes; ++pass) {
    std::vector<const schedule::TaskGraph*> graphs;
    for (const size_t c : class_of_rank)
      graphs.push_back(pass < of_class[c].graphs.size() ? &of_class[c].graphs[pass] : &none);
    const auto timelines = simulate(graphs, predictor.rates, predictor.groups, drive);
    for (size_t r = 0; r < timelines.size(); ++r) seconds[r] += timelines[r].total();
  }
  return std::ranges::max(seconds);
}

/// Predicts schedules of one recipe.
class SchedulePrices {
 public:
  SchedulePrices(const Recipe& recipe, const Extensions& extensions, const Predictor& predictor,
                 const comm::ProcessGroup& world, const RoutingLoad& load)
      : recipe_(recipe),
        predictor_(predictor),
        world_(world),
        layers_(recipe, extensions, mesh::Layout(recipe.parallel.sizes(), world.size()), world.node_of_rank(), load) {}

  ScheduleCandidate of(const MoeSchedule& schedule) {
    const std::vector<LayerWork> of_class = layers_.work(schedule);
    const std::vector<size_t>& class_of_rank = layers_.class_of_rank();
    const schedule::Drive drive = drive_of(recipe_, schedule);
    const bool together = class_of_rank.size() <= max_ranks_together && may_meet(of_class);
    const double mine = together ? slowest_together(of_class, class_of_rank, predictor_, drive)
                                 : slowest_alone(of_class, predictor_, drive);
    std::string bytes;
    std::set<std::string> assumed;
    for (const LayerWork& work : of_class) {
      append(bytes, work);
      assumed.merge(work.unmeasured_links(predictor_.rates));
    }
    // Ranks must agree on one prediction, even if their groups, and therefore their rates, differ.
    return {.schedule = schedule,
            .predicted = world_.all_reduce_value(mine, comm::Reduce::max, host_),
            .work = data::digest_of(bytes).to_string(),
            .assumed_links = std::move(assumed)};
  }

 private:
  const Recipe& recipe_;
  const Predictor& predictor_;
  const comm::ProcessGroup& world_;
  LayerGraphs layers_;
  device::DeviceContext host_;  // device of the reductions with which ranks agree on a result
};

}  // namespace

double layer_seconds(const std::vector<PassRecorder::LayerTime>& layers) {
  double sum = 0;
  for (const auto& [kind, name] : enum_names(schedule::PassKind{})) {
    double seconds = 0;
    int64_t count = 0;
    for (const PassRecorder::LayerTime& l : layers)
      if (l.name.kind == kind) seconds += l.time.end - l.time.begin, ++count;
    if (count > 0) sum += seconds / static_cast<double>(count);
  }
  return sum;
}

std::vector<std::string> assumed_links(std::span<const ScheduleCandidate> candidates) {
  std::set<std::string> all;
  for (const ScheduleCandidate& c : candidates) all.insert(c.assumed_links.begin(), c.assumed_links.end());
  return {all.begin(), all.end()};
}

double ScheduleCandidate::measured_seconds() const { return measured.empty() ? 0 : summary_of(measured).median; }

std::vector<int64_t> chunk_numbers(const Recipe& recipe, const train::Extensions& extensions, MemoryNeeds& needs,
                                   const MoeSchedule& s) {
  std::vector<int64_t> numbers = legal_chunks(recipe, extensions, s);
  std::vector<MoeSchedule> all;  // one for each number of chunks, because more chunks need less memory
  for (const int64_t n : numbers) {
    all.push_back(s);
    all.back().chunks = n;
  }
  const int64_t fewest = needs.within(all).schedules.front().chunks;
  std::erase_if(numbers, [&](int64_t n) { return n < fewest; });
  return numbers;
}

int64_t rows_of_layer(const Recipe& r) {
  const int64_t rows = r.batch.micro * r.model.context / r.parallel.cp;
  return r.parallel.sp ? rows / r.parallel.tp : rows;
}

ScheduleCandidate predicted_schedule(const Recipe& recipe, const Extensions& extensions, const Predictor& predictor,
                                     const comm::ProcessGroup& world, const MoeSchedule& schedule) {
  return SchedulePrices(recipe, extensions, predictor, world, RoutingLoad::even).of(schedule);
}

std::vector<ScheduleCandidate> predicted_each(const Recipe& recipe, const Extensions& extensions,
                                              const Predictor& predictor, const comm::ProcessGroup& world,
                                              const std::vector<MoeSchedule>& schedules, const RoutingLoad& load) {
  SchedulePrices prices(recipe, extensions, predictor, world, load);
  std::vector<ScheduleCandidate> all;
  for (const MoeSchedule& s : schedules) all.push_back(prices.of(s));
  return all;
}

std::vector<ScheduleCandidate> predicted_schedules(const Recipe& recipe, const Extensions& extensions,
                                                   const Predictor& predictor, const comm::ProcessGroup& world,
                                                   const std::vector<MoeSchedule>& allowed, const RoutingLoad& load) {
  SchedulePrices prices(recipe, extensions, predictor, world, load);
  const bool all = allowed.size() <= max_priced;
  const MoeSchedule usual = recipe.schedule.moe.settled();
  std::vector<ScheduleCandidate> candidates;
  const auto price = [&](const MoeSchedule& s) {
    ScheduleCandidate candidate = prices.of(s);
    // Keeps only one of several candidates with equal work. Keeps all candidates whose number of chunks is open,
    // because their work may differ with another number of chunks.
    const auto twin = std::ranges::find_if(candidates, [&](const ScheduleCandidate& other) {
      return other.work == candidate.work && !chunks_open(recipe, other.schedule);
    });
    if (twin == candidates.end() || chunks_open(recipe, s)) return candidates.push_back(std::move(candidate));
    if (s == usual) *twin = std::move(candidate);
  };
  for (const MoeSchedule& s : allowed)
    if (all || s == with_late_choices(s, usual)) price(s);
  if (all) return candidates;
  std::vector<ScheduleCandidate> best = candidates;
  std::ranges::stable_sort(best, {}, &ScheduleCandidate::predicted);
  best.resize(std::min(best.size(), max_varied));
  for (const MoeSchedule& s : allowed)
    for (const ScheduleCandidate& b : best)
      if (s != b.schedule && with_late_choices(s, usual) == b.schedule) price(s);
  return candidates;
}

}  // namespace hexad::plan
