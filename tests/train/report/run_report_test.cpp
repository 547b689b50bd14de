#include "tools/train/report/run_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/device/memory.h"
#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report_assets.h"
#include "framework/telemetry/report_data.h"
#include "tests/telemetry/temporary_folder.h"
#include "tools/train/report/run_facts.h"

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

TEST(RunReport, StacksMemoryInUseOnceAndInDistinctColours) {
  telemetry::MetricsHistory history;
  std::map<std::string, int64_t>& memory = history.steps.emplace_back().memory_peak_bytes;
  for (int c = 0; c < device::category_count; ++c) memory[std::string(name_of(static_cast<device::Category>(c)))] = 1;
  memory["total"] = memory["held"] = 1;
  const auto data = nlohmann::json::parse(telemetry::report_data(history));
  std::set<std::string> names, colours, separate;
  for (const auto& kind : data.at("memory_chart")) {
    const std::string name = kind.at("name"), colour = kind.at("colour");
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(colours.insert(colour).second) << name << " has the colour of another kind";
    EXPECT_NE(colour, "muted") << name << " has the colour muted; expected a distinct colour";
    EXPECT_NE(telemetry::report_style.find("--" + colour + ":"), std::string_view::npos) << colour;
    if (!kind.at("stacked").get<bool>()) separate.insert(name);
  }
  EXPECT_EQ(names.size(), memory.size() - 1);
  EXPECT_FALSE(names.contains("total"));
  EXPECT_EQ(separate, (std::set<std::string>{"held", "offload"})) << "only these are not parts of the memory in use";
  EXPECT_EQ(data.at("memory").at("total"), nlohmann::json::parse("[1]")) << "comparisons of runs show the total";
}

TEST(RunHistory, StartWithoutStepsUpdatesOnlyTroubleAndSamples) {
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
  EXPECT_EQ(known.trouble, "") << "the second start completed the run";
  EXPECT_EQ(known.facts.size(), 1u);
  EXPECT_EQ(known.timelines, end.timelines);
  EXPECT_EQ(known.samples.at(0).text, "b");

  record_start(dir, started_after(4, "narrow"), "another");
  record_end(dir, {.step = 6, .date = "wednesday", .trouble = "", .facts = {}, .samples = {}, .timelines = {}});
  EXPECT_EQ(read_history(dir).end->date, "wednesday") << "a start with steps replaces the end";
}

TEST(RunHistory, NamesTheOutcomeOfARun) {
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

TEST(RunFacts, DescribeTheStateOfARun) {
  const TemporaryFolder folder;
  const auto dir = folder / "run";
  std::filesystem::create_directories(dir / "checkpoints/step-00000002");
  write_text(dir / "recipe.yaml", "");
  write_text(dir / "checkpoints/step-00000002/shard", std::string(2048, 'x'));
  record_start(dir, started_after(0, "pp 1 x dp 1"), "recipe");
  telemetry::StepMetrics s;
  s.step = 3, s.tokens = 1500, s.loss = 2.5;
  write_text(dir / "metrics.jsonl",
             telemetry::to_json_line(s) + "\n" +
                 telemetry::to_json_line(telemetry::EvalMetrics{.step = 2, .tokens = 100, .loss = 2.25}) + "\n");
  record_end(dir, {.step = 3,
                   .date = "",
                   .trouble = "The run was preempted after step 3; saved",
                   .facts = {},
                   .samples = {},
                   .timelines = {}});
  const RunFacts facts = facts_of_run(dir);
  EXPECT_TRUE(facts.problems.empty());
  EXPECT_EQ(describe(facts), dir.string() +
                                 "\n"
                                 "  state        preempted\n"
                                 "               The run was preempted after step 3; saved\n"
                                 "  recipe       " +
                                 (dir / "recipe.yaml").string() +
                                 "\n"
                                 "  layout       1 rank: pp 1 x dp 1\n"
                                 "  steps done   3 of 6, 1.50 k tokens\n"
                                 "  last loss    2.5000 at step 3\n"
                                 "  held-out     2.2500 at step 2\n"
                                 "  checkpoints  1 (step 2), 2.00 KiB\n");
  const auto json = nlohmann::json::parse(describe_json(facts));
  EXPECT_EQ(json.at("state"), "preempted");
  EXPECT_EQ(json.at("steps_done"), 3);
  EXPECT_EQ(json.at("loss").at("value"), 2.5);
  EXPECT_EQ(json.at("checkpoints").at(0).at("bytes"), 2048);
}

TEST(RunFacts, OmitUnreadableFacts) {
  const TemporaryFolder folder;
  const auto dir = folder / "run";
  std::filesystem::create_directories(dir);
  write_text(dir / "recipe.yaml", "");
  EXPECT_EQ(facts_of_run(dir).ending.outcome, Outcome::unknown);
  write_text(dir / "history.json", "{");
  EXPECT_EQ(facts_of_run(dir).problems.size(), 1u);
  EXPECT_NE(describe(facts_of_run(dir)).find("  steps done   none\n  checkpoints  none yet\n"), std::string::npos);
}

}  // namespace
}  // namespace hexad::train
