#include "tools/hexad/schedule_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/hexad/rank_graphs.h"
#include "tools/hexad/schedule_check.h"

namespace hexad::app {
namespace {

// More are not worth their trials: the simulator is right about the rest.
constexpr int64_t most_finalists = 4;
constexpr int64_t most_rounds = 5;

// Keeps the graphs that it is shown.
class GraphCollector final : public schedule::GraphRunner {
 public:
  bool run(const std::string&, const schedule::TaskGraph& graph, device::DeviceContext&) override {
    graphs.push_back(schedule::without_work(graph));
    return false;
  }
  std::vector<schedule::TaskGraph> graphs;
};

// Of a micro-batch, as they reach a layer of this rank.
int64_t rows_of(const Recipe& r) {
  const int64_t rows = r.batch.micro * r.model.context / r.parallel.cp;
  return r.parallel.sp ? rows / r.parallel.tp : rows;
}

double predicted_seconds(const Recipe& recipe, ModelInstance& instance, const Predictor& predictor,
                         const comm::ProcessGroup& world) {
  GraphCollector collector;
  if (const auto layers = instance.model.moe_layers(); !layers.empty())
    layers.front().layer->show_passes(rows_of(recipe), dtype_of(recipe.train.precision), instance.device(), collector);
  constexpr size_t passes = 2;
  base::require(collector.graphs.size() <= passes, "[schedule] a layer shows ", collector.graphs.size(), " passes");
  collector.graphs.resize(passes);  // a stage of dense layers has none
  std::vector<double> seconds(static_cast<size_t>(world.size()));
  for (const schedule::TaskGraph& graph : collector.graphs) {
    const std::vector<schedule::TaskGraph> all = graphs_of_all(graph, world, instance.device());
    std::vector<const schedule::TaskGraph*> graphs;
    for (const auto& g : all) graphs.push_back(&g);
    const auto timelines =
        simulate(graphs, predictor.rates, rank_groups(instance.mesh.layout(), world.node_of_rank()), predictor.drive);
    for (size_t r = 0; r < timelines.size(); ++r) seconds[r] += timelines[r].total();
  }
  // Ranks must agree, also where their groups, and so their rates, differ.
  return world.all_reduce_value(*std::max_element(seconds.begin(), seconds.end()), comm::Reduce::max,
                                instance.device());
}

}  // namespace

double measured_seconds(const std::vector<PassRecorder::Pass>& passes) {
  double sum = 0;
  for (const char* kind : {" forward", " backward"}) {
    double seconds = 0;
    int64_t count = 0;
    for (const PassRecorder::Pass& pass : passes)
      if (pass.name.ends_with(kind)) seconds += schedule::measured(pass.graph, pass.times).total(), ++count;
    if (count > 0) sum += seconds / static_cast<double>(count);
  }
  return sum;
}

void set_schedule(ModelInstance& instance, const moe::MoeSchedule& schedule) {
  for (const auto& place : instance.model.moe_layers()) place.layer->reschedule(schedule);
}

std::vector<ScheduleCandidate> predicted_schedules(const Recipe& recipe, ModelInstance& instance,
                                                   const Predictor& predictor, const comm::ProcessGroup& world) {
  std::vector<ScheduleCandidate> candidates;
  for (const moe::MoeSchedule& s : legal_schedules(recipe)) {
    set_schedule(instance, s);
    candidates.push_back({.schedule = s, .predicted = predicted_seconds(recipe, instance, predictor, world)});
  }
  return candidates;
}

double ScheduleCandidate::measured_seconds() const {
  if (measured.empty()) return 0;
  std::vector<double> sorted = measured;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

ScheduleChoice::ScheduleChoice(const Recipe& recipe, ModelInstance& instance, const Predictor& predictor,
                               const comm::ProcessGroup& world)
    : instance_(instance), world_(world), candidates_(predicted_schedules(recipe, instance, predictor, world)) {
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
  const auto trials = static_cast<int64_t>(recipe.schedule.moe.trial_share * static_cast<double>(recipe.train.steps));
  finalists_ = std::min({most_finalists, static_cast<int64_t>(candidates_.size()), trials / 2});
  if (finalists_ >= 2) {
    turns_ = finalists_ * std::min(most_rounds, trials / finalists_);
    // Whatever is predicted, what the program would do without choosing takes part: the choice is not slower.
    const auto plain = std::find_if(candidates_.begin(), candidates_.end(), [&](const ScheduleCandidate& c) {
      return c.schedule == recipe.schedule.moe.settled();
    });
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(finalists_ - 1);
    if (plain != candidates_.end() && plain > last) std::rotate(last, plain, plain + 1);
  }
  set(0);
}

bool ScheduleChoice::take(const std::string& chosen) {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (moe::to_string(candidates_[i].schedule) != chosen) continue;
    turn_ = turns_;
    set(i);
    return true;
  }
  return false;
}

// Alternating, so that a slow minute of the machine falls on all of them.
void ScheduleChoice::begin_trial() { set(static_cast<size_t>(turn_ % finalists_)); }

void ScheduleChoice::end_trial(const std::vector<PassRecorder::Pass>& passes) {
  candidates_[current_].measured.push_back(
      world_.all_reduce_value(app::measured_seconds(passes), comm::Reduce::max, instance_.device()));
  if (++turn_ < turns_) return;
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(finalists_);
  const auto fastest = std::min_element(candidates_.begin(), end, [](const auto& a, const auto& b) {
    return a.measured_seconds() < b.measured_seconds();
  });
  set(static_cast<size_t>(fastest - candidates_.begin()));
}

void ScheduleChoice::set(size_t candidate) {
  current_ = candidate;
  set_schedule(instance_, candidates_[candidate].schedule);
}

std::string ScheduleChoice::to_string(const ScheduleCandidate& c) {
  std::string out = fmt::format("{}: predicted {:.2f} ms", moe::to_string(c.schedule), 1e3 * c.predicted);
  if (const double seconds = c.measured_seconds(); seconds > 0)
    out += fmt::format(", measured {:.2f} ms ({:+.1f}%)", 1e3 * seconds, 100 * (c.predicted / seconds - 1));
  return out;
}

}  // namespace hexad::app
