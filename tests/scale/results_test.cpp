#include "tools/scale/results.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tools/scale/csv_comparison.h"
#include "tools/scale/results_page.h"

namespace hexad::scale {
namespace {

PointMeasurement measured(double seconds, double own, double ep, double work) {
  PointMeasurement m{.runs = 2, .steps = 8, .step_seconds = seconds, .least = seconds, .most = seconds};
  m.work = work;
  m.parts = {.work = own, .imbalance = seconds - own - ep, .waiting = {{"ep", ep}}};
  return m;
}

Results example() {
  Results results{.title = "e.yaml", .axes = {"schedule"}};
  for (const char* value : {"plain", "chunks"})
    for (const int64_t ranks : {1, 2, 4})
      results.rows.push_back(
          {.point = base::cat("ranks-", ranks, "_schedule-", value), .ranks = ranks, .values = {value}});
  results.rows[0].measured = measured(8, 8, 0, 100);
  results.rows[1].measured = measured(5, 4.25, 0.5, 100);
  results.rows[2].measured = measured(4, 2, 1, 200);
  results.rows[2].forecast = {.step_seconds = 3.5, .least = 3, .most = 4};
  results.rows[4].measured = measured(1, 1, 0, 100);
  compare_with_first(results);
  return results;
}

TEST(ScaleResults, SpeedupIsRelativeToTheFewestRanksOfTheSameValues) {
  const Results results = example();
  EXPECT_DOUBLE_EQ(*results.rows[0].speedup, 1);
  EXPECT_DOUBLE_EQ(*results.rows[1].speedup, 1.6);
  EXPECT_DOUBLE_EQ(*results.rows[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(*results.rows[2].speedup, 4);  // twice the work in half of the time
  EXPECT_DOUBLE_EQ(*results.rows[2].efficiency, 1);
  EXPECT_FALSE(results.rows[4].speedup.has_value());  // row 3, on the fewest ranks, is not measured
}

TEST(ScaleResults, LossesAddUpToTheStep) {
  const Results results = example();
  const Losses& losses = *results.rows[1].losses;
  EXPECT_DOUBLE_EQ(losses.ideal, 4);
  EXPECT_DOUBLE_EQ(losses.work, 0.25);
  EXPECT_DOUBLE_EQ(losses.imbalance, 0.25);
  EXPECT_DOUBLE_EQ(losses.waiting.at("ep"), 0.5);
  EXPECT_DOUBLE_EQ(losses.total(), 5);
  EXPECT_DOUBLE_EQ(results.rows[2].losses->total(), 4);
}

TEST(ScaleResults, CsvHasTheStepTimesOfMeasuredPoints) {
  const std::string csv = csv_of(example());
  EXPECT_EQ(csv.substr(0, csv.find("predicted")), "point,ranks,axis_schedule,");
  const StepSecondsByPoint steps = steps_in_csv(csv, "a.csv");
  EXPECT_EQ(steps, (StepSecondsByPoint{{"ranks-1_schedule-plain", 8},
                                       {"ranks-2_schedule-plain", 5},
                                       {"ranks-4_schedule-plain", 4},
                                       {"ranks-2_schedule-chunks", 1}}));
}

std::string refusal(const std::string& csv) {
  try {
    steps_in_csv(csv, "a.csv");
  } catch (const base::Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ScaleCsv, HalfWrittenAndForeignTablesAreRefusedByName) {
  EXPECT_EQ(refusal("run,folder\n"), "a.csv:1: the column point is missing; expected a table that `hexad scale` wrote");
  EXPECT_EQ(refusal("point,step_seconds\na,1\nb,"),
            "a.csv:3: the line does not end with a newline; the file is incomplete, write it again with "
            "`hexad scale`");
  EXPECT_EQ(refusal("point,step_seconds\na,1\nb"), "a.csv:3: the line has 1 cell; expected 2; the file is incomplete");
  EXPECT_EQ(refusal("point,step_seconds\n"),
            "a.csv:1: no line follows the names of the columns, expected at least one line; the file is incomplete, "
            "write it again with `hexad scale`");
  EXPECT_EQ(refusal("point,step_seconds\na,1e999\n"), "a.csv:2: step_seconds (1e999) must be a number above 0");
  EXPECT_EQ(refusal("point,step_seconds\r\na,1\r\n"), "accepted");
  EXPECT_EQ(refusal("point,step_seconds\na,x\n"), "a.csv:2: step_seconds (x) must be a number above 0");
  EXPECT_EQ(refusal("point,step_seconds\na,1\na,2\n"), "a.csv:3: point a occurs in two lines, expected one");
  EXPECT_EQ(refusal("point,step_seconds\n\"a, b\",1\nc,\n"), "accepted");
}

TEST(ScaleCsv, ComparisonNamesPointsOfOnlyOneTable) {
  const std::string text = comparison_text(example(), {{"ranks-1_schedule-plain", 4}, {"gone", 1}}, "old.csv");
  EXPECT_NE(text.find(" 2.000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("only here: ranks-2_schedule-plain, ranks-4_schedule-plain, ranks-2_schedule-chunks\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("only in old.csv: gone\n"), std::string::npos) << text;
}

TEST(ScaleResults, PageShowsMeasuredAndPredictedPoints) {
  const std::string page = results_page(example());
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  for (const char* text : {"<svg ", "schedule plain", "not run", "3.50 s (3.00 s to 4.00 s)", "| 4 | plain | 4.00 s"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST(ScaleResults, PictureIsDrawnOverTheAxisThatVaries) {
  Results results{.title = "e.yaml", .axes = {"rate", "schedule"}};
  for (const char* rate : {"50mbit", "100mbit"})
    results.rows.push_back({.point = rate, .ranks = 4, .values = {rate, "plain"}, .measured = measured(2, 2, 0, 1)});
  const std::string svg = step_time_picture(results);
  EXPECT_NE(svg.find(">50mbit</text>"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">rate</text>"), std::string::npos) << svg;
}

TEST(ScaleResults, PictureGrowsWithItsLegend) {
  Results results{.title = "e.yaml", .axes = {"rate"}};
  for (int i = 0; i < 40; ++i)
    for (const int64_t ranks : {1, 2})
      results.rows.push_back({.point = "p", .ranks = ranks, .values = {std::to_string(i)}});
  const std::string svg = step_time_picture(results);
  EXPECT_NE(svg.find("viewBox=\"0 0 860 670\""), std::string::npos)
      << svg.substr(0, 200);  // 30 px, and 40 lines of 16 px
  EXPECT_NE(svg.find("y=\"654.0\""), std::string::npos);
  results.rows.resize(8);
  EXPECT_NE(step_time_picture(results).find("viewBox=\"0 0 860 360\""), std::string::npos);
}

TEST(ScaleResults, RunsAtTheSameTimeAreReported) {
  Results results = example();
  EXPECT_EQ(concurrent_runs_text(results), "");
  EXPECT_EQ(markdown_of(results).find("at the same time"), std::string::npos);
  results.rows[1].beside = 2;
  const std::string about = "Up to 3 runs executed at the same time, each on separate cores or nodes.";
  EXPECT_EQ(concurrent_runs_text(results), about);
  EXPECT_NE(markdown_of(results).find(about), std::string::npos);
  EXPECT_NE(results_page(results).find(about), std::string::npos);
  EXPECT_NE(json_of(results).find("\"runs_beside\": 2"), std::string::npos);
  EXPECT_NE(csv_of(results).find(",runs_beside,"), std::string::npos);
}

TEST(ScaleResults, FailedRunsAreShownWithTheReason) {
  Results results = example();
  results.rows[3].failed = 2;
  results.rows[3].reason = "exit code 4: a|b";
  EXPECT_EQ(state_of_unmeasured(results.rows[3]), "failed: exit code 4: a|b");
  EXPECT_EQ(state_of_unmeasured(results.rows[5]), "not run");
  EXPECT_NE(markdown_of(results).find("| failed: exit code 4: a\\|b |"), std::string::npos) << markdown_of(results);
  EXPECT_NE(results_page(results).find("failed: exit code 4: a|b"), std::string::npos);
  EXPECT_NE(json_of(results).find("\"failed_runs\": 2"), std::string::npos);
  EXPECT_NE(json_of(results).find("\"failure\": \"exit code 4: a|b\""), std::string::npos);
  const std::string csv = csv_of(results);
  EXPECT_NE(csv.find(",failed_runs,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("ranks-1_schedule-chunks,1,chunks,,,,,2,"), std::string::npos) << csv;
  results.rows[0].failed = 1;
  results.rows[0].reason = "killed";
  const std::string line = "1 run of ranks-1_schedule-plain failed: killed\n";
  EXPECT_NE(markdown_of(results).find(line), std::string::npos);
  EXPECT_NE(results_page(results).find(line), std::string::npos);
}

TEST(ScaleResults, ValuesDoNotEndCellsOfTheMarkdownTable) {
  Results results = example();
  results.rows[0].values = {"a|b"};
  EXPECT_NE(markdown_of(results).find("| 1 | a\\|b |"), std::string::npos) << markdown_of(results);
}

TEST(ScaleResults, RunsOfDifferentProgramsAreReported) {
  Results results = example();
  results.programs = {{"hexad 1", 2}};
  EXPECT_EQ(programs_text(results), "");
  results.programs["hexad 2"] = 1;
  const std::string lines = "The runs are from different programs:\n- hexad 1: 2 runs\n- hexad 2: 1 run\n";
  EXPECT_EQ(programs_text(results), lines);
  EXPECT_NE(markdown_of(results).find(lines), std::string::npos);
  EXPECT_NE(results_page(results).find(lines), std::string::npos);
  EXPECT_NE(json_of(results).find("\"hexad 2\": 1"), std::string::npos);
}

TEST(ScaleResults, RanksThatSharedCoresAreMarked) {
  Results results = example();
  EXPECT_EQ(ranks_text(results.rows[2]), "4");
  results.rows[2].shared_cores = 2;
  EXPECT_NE(markdown_of(results).find("| 4 (ranks > cores) | plain | 4.00 s"), std::string::npos);
  EXPECT_NE(results_page(results).find("<td>4 (ranks &gt; cores)</td>"), std::string::npos);
  EXPECT_NE(json_of(results).find("\"shared_cores\": 2"), std::string::npos);
  EXPECT_NE(csv_of(results).find(",runs_beside,shared_cores,"), std::string::npos);
}

TEST(ScaleResults, DamagedRunsAreListed) {
  Results results = example();
  EXPECT_EQ(damaged_runs_text(results), "");
  results.damaged = {"a/metrics.jsonl ends before step 2 of 3"};
  const std::string line = "Left out a damaged run: a/metrics.jsonl ends before step 2 of 3";
  EXPECT_NE(markdown_of(results).find(line), std::string::npos);
  EXPECT_NE(results_page(results).find(line), std::string::npos);
  EXPECT_NE(json_of(results).find("\"a/metrics.jsonl ends before step 2 of 3\""), std::string::npos);
}

TEST(ScaleResults, JsonHasNullForUnknownValues) {
  const std::string json = json_of(example());
  EXPECT_NE(json.find("\"measured\": null"), std::string::npos);
  EXPECT_NE(json.find("\"efficiency\": 0.8"), std::string::npos);
}

}  // namespace
}  // namespace hexad::scale
