// Numbers that the charts of a report show.
#include "framework/telemetry/report_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/telemetry/small_reports.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

TEST(ReportData, ThinningKeepsSpikesAndBothEnds) {
  std::vector<double> losses(100'000, 3.0);
  losses[12'345] = 50;
  losses[77'777] = 0.5;
  losses[55'555] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<size_t> kept = thin(steps_with_losses(losses), 1000);
  EXPECT_LE(kept.size(), 1002u);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  for (size_t index : {0, 12'345, 55'555, 77'777, 99'999})
    EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), index)) << index;
}

TEST(ReportData, ShortRunIsKeptWhole) {
  EXPECT_EQ(thin(steps_with_losses({3, 2, 1}), 1000), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(thin({}, 1000).empty());
}

TEST(ReportData, SnapshotsAreSpreadOverStepsWithLoads) {
  std::vector<StepMetrics> steps = steps_with_losses(std::vector<double>(101, 1.0));
  for (size_t i = 0; i < steps.size(); i += 10) steps[i].expert_load = {{0.5, 0.5}};
  EXPECT_EQ(expert_load_snapshots(steps, 3), (std::vector<size_t>{0, 50, 100}));
  EXPECT_EQ(expert_load_snapshots(steps, 50).size(), 11u);
  EXPECT_EQ(expert_load_snapshots(steps, 1), (std::vector<size_t>{100}));
  EXPECT_TRUE(expert_load_snapshots(steps, 0).empty());
}

TEST(ReportData, ColumnsAlignAndMissingValuesAreNullOrZero) {
  MetricsHistory history;
  history.steps = steps_with_losses({4, std::numeric_limits<double>::infinity(), 2});
  history.steps[1].expert_load = {{}, {0.25, 0.75}};
  history.steps[1].prediction_loss = 5;
  history.steps[2].memory_peak_bytes["activation"] = 7;
  history.steps[2].comm["ep"] = {.bytes = 5, .seconds = 0.25, .exposed_seconds = 0.125};
  history.evals = {{.step = 2, .tokens = 10, .loss = 3, .bits_per_byte = 1.5}};
  const auto data = nlohmann::json::parse(report_data(history));
  using Json = nlohmann::json;
  EXPECT_EQ(data["loss"], Json::parse("[4, null, 2]"));
  EXPECT_EQ(data["prediction_loss"], Json::parse("[null, 5, null]"));
  EXPECT_EQ(data["seconds"], Json::parse("[0.5, 1.0, 1.5]"));
  EXPECT_EQ(data["memory"]["activation"], Json::parse("[0, 0, 7]"));
  EXPECT_EQ(data["comm"]["ep"]["exposed_seconds"], Json::parse("[0, 0, 0.125]"));
  EXPECT_EQ(data["experts"]["layers"], Json::parse("[1]")) << "layer 0 is dense";
  EXPECT_EQ(data["experts"]["max_over_mean"], Json::parse("[[null, 1.5, null]]"));
  EXPECT_EQ(data["experts"]["snapshots"], Json::parse(R"([{"step": 2, "load": [[0.25, 0.75]]}])"));
  EXPECT_EQ(data["heldout"][0]["tokens"], Json::parse("[200]"))
      << "the position on the axis is the number of training tokens";
}

TEST(ReportData, HeldOutLossesOfDifferentTextsAreDifferentCurves) {
  const auto eval = [](int64_t step, int64_t sequences, int64_t of, int64_t tokens) {
    return EvalMetrics{
        .step = step, .tokens = tokens, .loss = 2, .sequences = sequences, .total_sequences = of, .seconds = 0};
  };
  MetricsHistory history;
  history.steps = steps_with_losses(std::vector<double>(40, 3));
  // Evaluations on four held-out texts:
  // - one evaluation of an older program, which did not record its sequences
  // - two evaluations of 4 of the 9 sequences
  // - one evaluation of the whole set
  // - a later evaluation with more held-out data
  history.evals = {eval(5, 0, 0, 2'000), eval(10, 4, 9, 60), eval(20, 4, 9, 60), eval(20, 9, 9, 130),
                   eval(30, 4, 1'200, 60)};
  const auto data = nlohmann::json::parse(report_data(history));
  std::vector<std::string> names;
  for (const auto& curve : data["heldout"]) names.push_back(curve["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"held-out, 2.00 k tokens", "held-out, 4 of 9 sequences",
                                             "held-out, whole set", "held-out, 4 of 1,200 sequences"}));
  EXPECT_EQ(data["heldout"][1]["step"], nlohmann::json::parse("[10, 20]"));
}

TEST(ReportData, StepWithoutTargetsLeavesAGap) {
  MetricsHistory history;
  history.steps = steps_with_losses({4, 3, 2});
  history.steps[1].loss.reset();
  EXPECT_EQ(nlohmann::json::parse(report_data(history))["loss"], nlohmann::json::parse("[4, null, 2]"));
}

TEST(ReportData, StepsWithoutTargetsDoNotHideASpike) {
  std::vector<StepMetrics> steps = steps_with_losses(std::vector<double>(10'000, 3.0));
  for (size_t i = 0; i < steps.size(); i += 2) steps[i].loss.reset();
  steps[4'321].loss = 50;
  steps[7'777].loss = 0.5;
  const std::vector<size_t> kept = thin(steps, 100);
  for (size_t index : {4'321, 7'777}) EXPECT_TRUE(std::ranges::binary_search(kept, index)) << index;
}

}  // namespace
}  // namespace hexad::telemetry
