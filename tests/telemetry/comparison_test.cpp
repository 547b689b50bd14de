// Report that compares the runs of a sweep.
#include "framework/telemetry/comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/telemetry/report.h"
#include "framework/telemetry/report_data.h"
#include "tests/telemetry/small_reports.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

Sweep small_sweep(const TemporaryFolder& folder) {
  const MetricsHistory history = read_metrics(small_run(folder).metrics);
  Sweep sweep{
      .runs = {{.name = "plain",
                .folder = "runs/plain",
                .ranks = 1,
                .layout = "1 rank: pp 1 x dp 1 x cp 1 x tp 1 | pp 1 x edp 1 x ep 1 x etp 1 (horizontal)"},
               {.name = "<b>",
                .folder = "runs/<b>",
                .ranks = 2,
                .layout = "2 ranks: pp 1 x dp 2 x cp 1 x tp 1 | pp 1 x edp 1 x ep 2 x etp 1 (vertical), zero 1"}},
      .keys = {"optim.lr"}};
  for (SweepRun& run : sweep.runs) run.summary = summary_of(history, 0), run.columns = report_data(history);
  sweep.runs[0].settings["optim.lr"] = "1";
  sweep.runs[1].settings["optim.lr"] = "2";
  sweep.runs[1].differences = {"optim.lr: 1 -> 2"};
  return sweep;
}

TEST(Comparison, ContainsEveryRunUnderItsName) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  write_comparison(small_sweep(folder), output, charts);
  const std::string page = contents(output);
  EXPECT_NE(page.find("<h1>optim.lr: 1, 2 on 1, 2 ranks</h1>"), std::string::npos);
  EXPECT_NE(page.find("<p class=\"muted\">plain, &lt;b&gt;</p>"), std::string::npos);
  EXPECT_NE(page.find("{\"name\":\"\\u003cb>\",\"columns\":{\"step\":[1,"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos) << "names are escaped";
  EXPECT_NE(page.find("Differences from plain"), std::string::npos);
}

TEST(Comparison, HasATableOfTheRunsSpeed) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[0].summary.model_flops_per_second = 1000;
  RunSummary& second = sweep.runs[1].summary;
  second.step_seconds = {0.09, 0.1, 0.2};
  second.mfu = 0.4;
  second.model_flops_per_second = 1500;
  second.exposed_share = {{"ep", 0.25}, {"dp", 0.05}};
  write_comparison(sweep, output, charts);
  std::string page = contents(output);
  EXPECT_NE(page.find("<th>Exposed</th><th>ep</th>"), std::string::npos) << "each class has a column";
  EXPECT_NE(page.find("<td>100 ms</td><td>90.0 ms – 200 ms</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>1 rank</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>2 ranks: dp 2, ep 2, zero 1</td>"), std::string::npos) << "axes of size one are omitted";
  sweep.runs[1].layout =
      "4 ranks: pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 2 x ep 2 x etp 1 (order tp-cp-dp-ep-pp), zero 1";
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("<td>4 ranks: dp 2, tp 2, edp 2, ep 2, order tp-cp-dp-ep-pp, zero 1</td>"),
            std::string::npos);
  EXPECT_NE(page.find("<td>40.0%</td><td>75.0%</td><td>30.0%</td><td>25.0%</td>"), std::string::npos)
      << "1.5 times the speed on two ranks is an efficiency of 75%";
  EXPECT_EQ(page.find("above 100%"), std::string::npos);
  second.mfu = 1.2;
  write_comparison(sweep, output, charts);
  page = contents(output);
  EXPECT_NE(page.find("An MFU above 100% means that the peak"), std::string::npos);
  EXPECT_EQ(page.find("An efficiency above 100%"), std::string::npos);
  second.model_flops_per_second = 2500;
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("a rank of that run does more FLOP/s than a rank of plain"), std::string::npos);
}

TEST(Comparison, HasTheFiguresOfTheCsv) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  for (SweepRun& run : sweep.runs) run.summary.exposed_share = {{"ep", 0.25}, {"control", 0.05}};
  write_comparison(sweep, output, charts);
  const std::string csv = csv_of(sweep);
  // The page has no column for the folder, and it shows both percentiles in one column.
  const size_t csv_columns = count(csv.substr(0, csv.find('\n')), ",") + 1;
  EXPECT_EQ(count(contents(output), "<th>"), csv_columns - 2 + 1) << "both tables have a column for the name";
  for (const char* name : {"State", "Peak memory", "Timed steps", "Model FLOP/s", "ep", "control"})
    EXPECT_NE(contents(output).find(base::cat("<th>", name, "</th>")), std::string::npos) << name;
}

TEST(Comparison, MarksRunsWithTrouble) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[0].state = "finished";
  write_comparison(sweep, output, charts);
  EXPECT_EQ(contents(output).find("class=\"troubled\""), std::string::npos);
  EXPECT_EQ(contents(output).find("class=\"notice\"><b>"), std::string::npos);
  sweep.runs[1].state = "failed";
  sweep.runs[1].trouble = "The run failed after step 10: no space";
  write_comparison(sweep, output, charts);
  const std::string page = contents(output);
  EXPECT_NE(page.find("<p class=\"notice\"><b>&lt;b&gt;</b>: The run failed after step 10: no space</p>"),
            std::string::npos);
  EXPECT_EQ(count(page, "<tr class=\"troubled\">"), 2u) << "both tables mark the run";
  EXPECT_NE(page.find("<td>failed</td>"), std::string::npos);
}

TEST(Comparison, MentionsTheChartOfSharesOnlyIfItIsDrawn) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  for (SweepRun& run : sweep.runs) run.summary.exposed_share.clear();
  write_comparison(sweep, output, charts);
  EXPECT_EQ(contents(output).find("chart of step times"), std::string::npos);
  sweep.runs[1].summary.exposed_share = {{"dp", 0.25}};
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("chart of step times"), std::string::npos);
}

TEST(Comparison, ExplainsItsClassesInTheColoursOfTheReport) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[1].summary.exposed_share = {{"dp", 0.25}, {"ep", 0.05}};
  write_comparison(sweep, output, charts);
  ReportInputs inputs = small_run(folder);
  StepMetrics step = steps_with_losses({2.5}).front();
  step.comm = {{"dp", {.bytes = 10, .seconds = 0.1}}, {"ep", {.bytes = 10, .seconds = 0.1}}, {"tp", {.bytes = 0}}};
  write_text(inputs.metrics, to_json_line(step) + "\n");
  for (const std::string& page : {contents(output), report_of(inputs)}) {
    const size_t ep = page.find("<li><i style=\"background: var(--series-1)\"></i><b>ep</b> expert parallelism: ");
    const size_t dp = page.find("<li><i style=\"background: var(--series-5)\"></i><b>dp</b> data parallelism: ");
    EXPECT_NE(ep, std::string::npos);
    EXPECT_NE(dp, std::string::npos);
    EXPECT_LT(ep, dp);
    EXPECT_EQ(page.find("tensor parallelism"), std::string::npos) << "tp sends nothing";
    EXPECT_NE(page.find("const trafficColour = (name) => series("), std::string::npos);
    EXPECT_EQ(page.find("--class-"), std::string::npos) << "the page must use the report's colours";
  }
}

}  // namespace
}  // namespace hexad::telemetry
