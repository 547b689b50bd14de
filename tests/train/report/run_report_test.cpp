#include "tools/train/report/run_report.h"

#include <gtest/gtest.h>

#include "framework/telemetry/metrics_json.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::train {
namespace {

using telemetry::contents;
using telemetry::TemporaryFolder;
using telemetry::write_text;

RunStart started_after(int64_t step, const std::string& layout) {
  return {.run = {.first_step = step, .total_steps = 6, .ranks = 1},
          .date = "",
          .layout = layout,
          .facts = {},
          .changes = {}};
}

TEST(RunReport, CountsTheMemoryOfItsOwnStepsOnly) {
  const TemporaryFolder folder;
  std::string lines;
  for (const auto& [step, bytes] : {std::pair{1, 900}, {2, 50}, {3, 70}}) {
    telemetry::StepMetrics s;
    s.step = step;
    s.memory_peak_bytes = {{"total", bytes}};
    lines += telemetry::to_json_line(s) + "\n";
  }
  write_text(folder / "metrics.jsonl", lines);
  EXPECT_EQ(measured_memory(folder / ".", 0).at("total"), 900);
  EXPECT_EQ(measured_memory(folder / ".", 1).at("total"), 70);
  EXPECT_TRUE(measured_memory(folder / ".", 3).empty());
}

TEST(RunHistory, AStartWithoutStepsAddsOnlyItsSamples) {
  const TemporaryFolder folder;
  const auto dir = folder / ".";
  record_start(dir, started_after(0, "wide"), "recipe");
  EXPECT_EQ(contents(recipe_of_start(dir, read_history(dir).starts.back())), "recipe");
  RunEnd end{.step = 6,
             .date = "monday",
             .trouble = "preempted",
             .facts = {{"Memory", "much"}},
             .samples = {},
             .timelines = {"<svg>"}};
  record_end(dir, end);
  record_end(dir, {.step = 6, .date = "tuesday", .trouble = "", .facts = {}, .samples = {{"a", "b"}}, .timelines = {}});
  const RunEnd known = *read_history(dir).end;
  EXPECT_EQ(known.date, "monday");
  EXPECT_EQ(known.trouble, "") << "what was left to do is done";
  EXPECT_EQ(known.facts.size(), 1u);
  EXPECT_EQ(known.timelines, end.timelines);
  EXPECT_EQ(known.samples.at(0).text, "b");

  record_start(dir, started_after(4, "narrow"), "another");
  record_end(dir, {.step = 6, .date = "wednesday", .trouble = "", .facts = {}, .samples = {}, .timelines = {}});
  EXPECT_EQ(read_history(dir).end->date, "wednesday") << "the steps ran again";
}

TEST(RunHistory, TellsHowARunEnded) {
  RunHistory history;
  EXPECT_EQ(ending_of(history).outcome, Outcome::unknown);
  history.starts = {started_after(0, "wide")};
  EXPECT_EQ(ending_of(history).outcome, Outcome::no_end);
  EXPECT_TRUE(ending_of(history).trouble.starts_with("No end is recorded")) << ending_of(history).trouble;
  history.end = RunEnd{.step = 6, .date = "", .trouble = "", .facts = {}, .samples = {}, .timelines = {}};
  EXPECT_EQ(ending_of(history).outcome, Outcome::finished);
  history.end->trouble = "The run was preempted after step 6; saved";
  EXPECT_EQ(ending_of(history).outcome, Outcome::preempted);
  history.end->trouble = "The run failed after step 6: no space";
  EXPECT_EQ(ending_of(history).outcome, Outcome::failed);
  EXPECT_EQ(ending_of(history).trouble, history.end->trouble);
}

}  // namespace
}  // namespace hexad::train
