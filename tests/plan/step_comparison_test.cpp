// A predicted step compared with the measured steps of a run directory.
#include "tools/plan/step_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "framework/config/typed_recipe.h"
#include "framework/telemetry/metrics_json.h"
#include "tests/plan/two_nodes.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/step_forecast.h"
#include "tools/train/report/run_history.h"

namespace hexad::tests {

using namespace plan;

namespace {

using comm::TrafficClass;
using telemetry::TraceEvent;

constexpr int64_t ranks = 4;

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

train::RunStart started_after(int64_t step) {
  train::RunStart start;
  start.run.first_step = step;
  start.run.ranks = ranks;
  return start;
}

// Writes five steps of a run. The first step takes 9 s, and the others take 1 to 4 s. A quarter of each step is a wait
// in class ep.
void write_run(const Scratch& folder, const Recipe& recipe) {
  const std::string text = config::write(recipe);
  write_text(folder / "recipe.yaml", text);
  train::record_start(folder.path(), started_after(0), text);
  std::string lines;
  for (int64_t step = 1; step <= 5; ++step) {
    telemetry::StepMetrics s;
    s.step = step;
    s.loss = 2.5;
    s.step_seconds = step == 1 ? 9 : static_cast<double>(step - 1);
    s.comm["ep"] = {.bytes = 100 * step, .seconds = s.step_seconds, .exposed_seconds = s.step_seconds / 4};
    s.memory_peak_bytes["total"] = 1000 + step;
    lines += telemetry::to_json_line(s) + "\n";
  }
  write_text(folder / "metrics.jsonl", lines);
}

// Writes a trace of steps 2, 3 and 4. Step 4 has the median duration. In step 4, rank 1 begins a second before rank 0.
void write_trace_of_run(const Scratch& folder) {
  const auto at = [](std::string name, int rank, double begin, double seconds) {
    return TraceEvent{
        .name = std::move(name), .lane = "host", .rank = rank, .start_us = 1e6 * begin, .duration_us = 1e6 * seconds};
  };
  telemetry::write_trace(
      folder / "trace.json.gz",
      {{at("step 2", 0, 0, 5), at("optimizer", 0, 4, 1), at("step 3", 0, 5, 1), at("step 4", 0, 10, 3),
        at("optimizer", 0, 12, 1), at("checkpoint", 0, 13, 1), at("step 4", 1, 9, 4), at("data", 1, 9.5, 1)},
       {{.name = "memory (bytes)", .rank = 1, .time_us = 10e6, .values = {{"activation", 7}}}}});
}

const ComparedRow& row(const std::vector<ComparedRow>& rows, const std::string& name) {
  const auto at = std::ranges::find(rows, name, &ComparedRow::name);
  if (at == rows.end()) throw std::runtime_error("there is no row " + name);
  return *at;
}

TEST(MeasuredStep, HasTheMediansOfTheTimedStepsAndOneTracedStep) {
  const Scratch folder;
  write_run(folder, small_recipe());
  write_trace_of_run(folder);
  const MeasuredStep measured = measured_step(folder.path());
  EXPECT_EQ(measured.ranks, ranks);
  EXPECT_EQ(measured.summary.first_timed_step, 2);
  EXPECT_DOUBLE_EQ(measured.summary.step_seconds.median, 2.5);
  EXPECT_DOUBLE_EQ(measured.sent[base::ordinal(TrafficClass::ep)], 350);
  EXPECT_EQ(measured.traced_step, 4);
  EXPECT_EQ(measured.trace_problem, "");
  std::vector<std::string> events;
  for (const TraceEvent& e : measured.trace.events) events.push_back(e.name + base::cat(" ", e.start_us));
  EXPECT_EQ(events, (std::vector<std::string>{"step 4 1e+06", "optimizer 3e+06", "step 4 0", "data 500000"}));
  ASSERT_EQ(measured.trace.counters.size(), 1U);
  EXPECT_DOUBLE_EQ(measured.trace.counters[0].time_us, 1e6);
}

TEST(MeasuredStep, ExplainsAMissingTrace) {
  const Scratch folder;
  write_run(folder, small_recipe());
  EXPECT_NE(
      measured_step(folder.path()).trace_problem.find("has no trace.json.gz; set profile.steps to record a trace"),
      std::string::npos);
  write_trace_of_run(folder);
  train::record_start(folder.path(), started_after(4), config::write(small_recipe()));
  const MeasuredStep later = measured_step(folder.path());
  EXPECT_FALSE(later.traced_step.has_value());
  EXPECT_NE(later.trace_problem.find("has no step after step 4"), std::string::npos) << later.trace_problem;
}

TEST(MeasuredStep, IsRefusedForAnotherStep) {
  const Scratch folder;
  write_run(folder, small_recipe());
  const MeasuredStep measured = measured_step(folder.path());
  EXPECT_NO_THROW(require_same_step(measured, small_recipe({"optim.lr=0.5", "train.steps=7", "run.dir=x"}), ranks));
  const std::string message = message_of(ExitCode::usage, [&] {
    require_same_step(measured, small_recipe({"model.layers=4", "batch.micro=1"}), 2);
  });
  for (const char* line : {"ranks: 4 in the run, 2 in the recipe", "model.layers: 2 in the run, 4 in the recipe",
                           "batch.micro: 2 in the run, 1 in the recipe"})
    EXPECT_NE(message.find(line), std::string::npos) << message;
}

TEST(StepComparison, HasARowForEachPartOfAStep) {
  const Scratch folder;
  write_run(folder, small_recipe());
  StepForecast forecast;
  forecast.seconds = 6;
  forecast.stages.resize(2);  // their means are 4 s busy, 1.5 s in ep, 0.5 s idle
  for (const int stage : {0, 1}) {
    StepForecast::Stage& s = forecast.stages[stage];
    s.busy = 3 + 2 * stage, s.idle = stage, s.exposed[base::ordinal(TrafficClass::ep)] = 3 - 3 * stage;
    s.sent[base::ordinal(TrafficClass::ep)] = 50;
  }
  const std::vector<ComparedRow> rows = compare(forecast, 2010, measured_step(folder.path()));
  const auto expect_row = [&](const char* name, double predicted, std::optional<double> measured) {
    EXPECT_DOUBLE_EQ(row(rows, name).predicted.value(), predicted) << name;
    ASSERT_EQ(row(rows, name).measured.has_value(), measured.has_value()) << name;
    if (measured) {
      EXPECT_DOUBLE_EQ(*row(rows, name).measured, *measured) << name;
      EXPECT_DOUBLE_EQ(row(rows, name).ratio().value(), *measured / predicted) << name;
    }
  };
  expect_row("step time", 6, 2.5);
  expect_row("own work", 4, 1.875);
  expect_row("waiting", 2, 0.625);
  expect_row("  in ep", 1.5, 0.625);
  expect_row("  idle", 0.5, {});
  expect_row("sent in ep", 200, 350);
  expect_row("memory peak", 2010, 1005);
  EXPECT_EQ(rows.size(), 7U) << "classes without traffic have no row";
  EXPECT_EQ(row(rows, "  idle").cells()[3], "–");
  EXPECT_EQ(row(rows, "step time").cells()[3], "0.42");
}

TEST(WholeStep, HasAllMicroBatchesOnTheSameRanks) {
  const std::string yaml =
      "model: {layers: 2, hidden: 512, heads: 8, context: 512, vocab: 1024}\n"
      "batch: {global: 12, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "data: {synthetic: true}\n";
  const Recipe r = recipe_of(yaml, {}, 2);
  const StepPrices prices(two_nodes(), 2);
  const mesh::Layout layout(r.parallel.sizes(), 2);
  const StepForecast some = forecast_step(r, {}, layout, prices);
  ASSERT_LT(some.simulated_micro_batches, 6);
  const StepForecast all = with_all_micro_batches(some, r, {}, layout, prices, RoutingLoad::even);
  EXPECT_EQ(all.simulated_micro_batches, 6);
  EXPECT_EQ(all.micro_batches, 6);
  ASSERT_EQ(all.records.size(), some.records.size());
  EXPECT_EQ(all.records[0].rank, some.records[0].rank);
  EXPECT_GT(all.records[0].issues.size(), some.records[0].issues.size());
  EXPECT_EQ(all.simulated.ranks[0].times.size(), all.records[0].issues.size());
  EXPECT_NEAR(all.seconds, some.seconds, 0.02 * some.seconds);
  EXPECT_EQ(with_all_micro_batches(all, r, {}, layout, prices, RoutingLoad::even).seconds, all.seconds);
}

}  // namespace

}  // namespace hexad::tests
