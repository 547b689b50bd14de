#include "tools/plan/measured_step.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/median.h"
#include "framework/base/parsed_number.h"
#include "framework/config/typed_recipe.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/report/trained_steps.h"

namespace hexad::plan {
namespace {

using base::ExitCode;
using telemetry::TraceEvent;
using telemetry::TraceRecords;

// Returns the step's number if `e` is the event of lane "host" that encloses a whole step; none otherwise.
std::optional<int64_t> step_of(const TraceEvent& e) {
  constexpr std::string_view word = "step ";
  if (e.lane != "host" || !e.name.starts_with(word)) return {};
  return base::parsed_number<int64_t>(std::string_view(e.name).substr(word.size()));
}

// Returns the number of the traced step with the median duration on rank 0, among the steps after step `after`. Returns
// none if the trace has no such step.
std::optional<int64_t> typical_step(const TraceRecords& trace, int64_t after) {
  std::vector<std::pair<double, int64_t>> steps;  // duration and number of each step
  for (const TraceEvent& e : trace.events)
    if (const auto step = step_of(e); step && *step > after && e.rank == 0) steps.emplace_back(e.duration_us, *step);
  if (steps.empty()) return {};
  std::ranges::sort(steps);
  return steps[(steps.size() - 1) / 2].second;
}

// Returns the events that begin in a step, and the counters recorded in this step. Each rank has its own start and end
// of the step. Returned times are relative to the earliest start of the step on any rank.
TraceRecords only_step(const TraceRecords& trace, int64_t step) {
  std::map<int, std::pair<double, double>> of_rank;
  double zero = std::numeric_limits<double>::infinity();
  for (const TraceEvent& e : trace.events)
    if (step_of(e) == step) {
      of_rank[e.rank] = {e.start_us, e.start_us + e.duration_us};
      zero = std::min(zero, e.start_us);
    }
  const auto is_in_step = [&](int rank, double time) {
    const auto at = of_rank.find(rank);
    return at != of_rank.end() && time >= at->second.first && time < at->second.second;
  };
  TraceRecords records;
  for (const TraceEvent& e : trace.events)
    if (is_in_step(e.rank, e.start_us)) records.events.emplace_back(e).start_us -= zero;
  for (const telemetry::TraceCounter& c : trace.counters)
    if (is_in_step(c.rank, c.time_us)) records.counters.emplace_back(c).time_us -= zero;
  return records;
}

void read_trace_of(MeasuredStep& measured, int64_t newest_start) {
  const std::filesystem::path path = measured.run / "trace.json.gz";
  if (!std::filesystem::is_regular_file(path)) {
    measured.trace_problem =
        base::cat(measured.run.string(), " has no trace.json.gz; set profile.steps to record a trace");
    return;
  }
  const TraceRecords trace = telemetry::load_trace(path);
  measured.traced_step = typical_step(trace, newest_start);
  if (measured.traced_step)
    measured.trace = only_step(trace, *measured.traced_step);
  else
    measured.trace_problem =
        base::cat(path.string(), " has no step after step ", newest_start,
                  ", the last step before the run's newest start; set profile.steps to later steps");
}

double median_sent(const std::vector<telemetry::StepMetrics>& steps, int64_t first, const std::string& traffic) {
  std::vector<double> bytes;
  for (const telemetry::StepMetrics& s : steps) {
    if (s.step < first) continue;
    const auto at = s.comm.find(traffic);
    bytes.push_back(at == s.comm.end() ? 0 : static_cast<double>(at->second.bytes));
  }
  return base::median(std::move(bytes));
}

// True if the key affects the work, and therefore the time, of a step.
bool shapes_a_step(std::string_view key) {
  constexpr std::array<std::string_view, 14> keys{"device",
                                                  "recompute",
                                                  "train.precision",
                                                  "train.logits_dtype",
                                                  "optim.name",
                                                  "optim.grad_dtype",
                                                  "optim.moment_dtype",
                                                  "optim.main_weights",
                                                  "optim.overlap",
                                                  "optim.muon_iterations",
                                                  "optim.muon_except",
                                                  "optim.freeze",
                                                  "distributed.bucket_bytes",
                                                  "distributed.priority"};
  constexpr std::array<std::string_view, 5> sections{"model.", "batch.", "parallel.", "schedule.", "offload."};
  constexpr std::array<std::string_view, 5> others{"schedule.trace", "schedule.profile", "schedule.moe.trial_share",
                                                   "schedule.moe.redecide_every", "offload.folder"};
  if (std::ranges::find(others, key) != others.end()) return false;
  return std::ranges::find(keys, key) != keys.end() ||
         std::ranges::any_of(sections, [&](std::string_view section) { return key.starts_with(section); });
}

}  // namespace

MeasuredStep measured_step(const std::filesystem::path& run) {
  const train::TrainedSteps trained = train::trained_steps(run);
  if (trained.metrics.steps.empty())
    base::fail(ExitCode::data, (run / "metrics.jsonl").string(),
               " contains no training step; expected the directory of a run that has trained at least one step");
  if (trained.history.starts.empty())
    base::fail(ExitCode::data, (run / "history.json").string(),
               " records no start of the run, so the number of ranks is unknown; expected the directory of a run that "
               "`hexad train` has started");
  MeasuredStep measured{.run = run,
                        .recipe = trained.recipe,
                        .ranks = trained.history.starts.back().run.ranks,
                        .summary = telemetry::summary_of(trained.metrics, trained.newest_start())};
  for (int c = 0; c < comm::traffic_class_count; ++c)
    measured.sent[c] = median_sent(trained.metrics.steps, measured.summary.first_timed_step,
                                   std::string(name_of(static_cast<comm::TrafficClass>(c))));
  read_trace_of(measured, trained.newest_start());
  return measured;
}

void require_same_step(const MeasuredStep& measured, const train::Recipe& recipe, int64_t ranks) {
  std::string lines;
  const auto differs = [&](std::string_view key, std::string_view run, std::string_view here) {
    lines += base::cat("\n  ", key, ": ", run, " in the run, ", here, " in the recipe");
  };
  if (ranks != measured.ranks) differs("ranks", std::to_string(measured.ranks), std::to_string(ranks));
  const std::map<std::string, std::string> of_run = train::RecordedRecipe(measured.recipe).settings();
  for (const config::Setting& setting : config::settings(recipe)) {
    const auto at = of_run.find(setting.path);
    if (at != of_run.end() && at->second != setting.value && shapes_a_step(setting.path))
      differs(setting.path, at->second, setting.value);
  }
  if (!lines.empty())
    base::fail(ExitCode::usage, "the step differs from the steps of ", measured.run.string(), " (",
               measured.recipe.string(), "):", lines, "\nexpected equal values, as in the run's own recipe");
}

}  // namespace hexad::plan
