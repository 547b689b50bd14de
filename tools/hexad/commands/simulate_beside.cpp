#include "tools/hexad/commands/simulate_beside.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/telemetry/timeline_svg.h"
#include "tools/plan/step_timeline.h"
#include "tools/plan/step_trace.h"

namespace hexad::app {

using namespace plan;

namespace {

std::string steps_text(const telemetry::RunSummary& summary) {
  return summary.timed_steps == 1
             ? fmt::format("step {}", summary.last_step)
             : fmt::format("median of steps {} to {}", summary.first_timed_step, summary.last_step);
}

std::string trace_text(const MeasuredStep& run) {
  return run.traced_step ? fmt::format("timelines: step {} of {}", *run.traced_step, run.run.string())
                         : fmt::format("no measured timeline: {}", run.trace_problem);
}

}  // namespace

void print_text(const StepBesideRun& beside) {
  fmt::print("\nCompared with {} ({} on {})\n", beside.run.run.string(), steps_text(beside.run.summary),
             base::counted(beside.run.ranks, "rank"));
  fmt::print("{:<14} {:>12} {:>12} {:>19}\n", "", "predicted", "measured", "measured/predicted");
  for (const ComparedRow& row : beside.rows) {
    const auto [name, predicted, measured, ratio] = row.cells();
    fmt::print("{:<14} {:>12} {:>12} {:>19}\n", name, predicted, measured, ratio);
  }
  fmt::print("{}\n", trace_text(beside.run));
}

nlohmann::ordered_json json_of(const StepBesideRun& beside) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  const MeasuredStep& run = beside.run;
  Json rows = Json::array();
  for (const ComparedRow& row : beside.rows)
    rows.push_back({{"name", row.name.substr(row.name.find_first_not_of(' '))},
                    {"unit", row.unit == ComparedRow::Unit::seconds ? "seconds" : "bytes"},
                    {"predicted", number(row.predicted)},
                    {"measured", number(row.measured)},
                    {"ratio", number(row.ratio())}});
  return {{"run", run.run.string()},
          {"first_step", run.summary.first_timed_step},
          {"last_step", run.summary.last_step},
          {"rows", std::move(rows)},
          {"traced_step", run.traced_step ? Json(*run.traced_step) : Json(nullptr)},
          {"without_trace", run.trace_problem}};
}

telemetry::ReportInputs::Prediction prediction_of(const StepBesideRun& beside, const StepForecast& forecast,
                                                  const PredictedPlaces& places, const std::string& about) {
  const MeasuredStep& run = beside.run;
  telemetry::ReportInputs::Prediction prediction{
      .about = about,
      .rows = {},
      .notes = {fmt::format("Measured: {}. The prediction counts waits for late ranks and for other pipeline stages as "
                            "idle; the measurement counts these waits as communication.",
                            steps_text(run.summary))},
      .timelines = {}};
  for (const ComparedRow& row : beside.rows) {
    const auto [name, predicted, measured, ratio] = row.cells();
    prediction.rows.push_back({name, predicted, measured, ratio});
  }
  if (!run.traced_step) {
    prediction.notes.push_back(trace_text(run));
    return prediction;
  }
  prediction.notes.emplace_back(
      "The row compute shows the parts of the model. Parts that are too short to be seen are merged with their "
      "neighbours.");
  if (places.domain_of_rank != places.node_of_rank)
    prediction.notes.emplace_back(
        "The rows intra and inter differ: in the prediction, traffic inside a domain of the fast link, which joins "
        "several nodes, is intra; in the measurement, only traffic inside a node is.");
  for (const size_t stage : std::set<size_t>{0, forecast.records.size() - 1}) {
    const int rank = forecast.records[stage].rank;
    const schedule::Timeline measured = measured_timeline(run.trace, rank);
    const schedule::Timeline predicted = predicted_timeline(forecast, stage, places.domain_of_rank);
    prediction.timelines.push_back(
        telemetry::timeline_svg(fmt::format("step {}, predicted {} and measured rank {}", *run.traced_step,
                                            telemetry::rank_name(rank, places.node_of_rank), rank),
                                {&measured, &predicted}));
  }
  return prediction;
}

void write_both_traces(const std::string& path, const StepBesideRun& beside, const StepForecast& forecast,
                       const PredictedPlaces& places) {
  std::vector<telemetry::TraceSource> sources{
      {"predicted", trace_of(forecast, places.domain_of_rank), places.node_of_rank}};
  if (beside.run.traced_step) sources.push_back({"measured", beside.run.trace});
  telemetry::write_traces(path, sources);
}

}  // namespace hexad::app
