#include "framework/telemetry/metrics.h"

#include <gtest/gtest.h>

#include <time.h>
#include <cmath>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"
#include "tests/telemetry/full_step.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

TEST(MetricsJson, LineOfAStepHasTheNamesOfItsValues) {
  const auto json = nlohmann::json::parse(to_json_line(full_step(5)));
  for (const char* name : {"kind",
                           "step",
                           "time",
                           "started_after",
                           "tokens",
                           "loss",
                           "prediction_loss",
                           "lr",
                           "grad_norm",
                           "step_seconds",
                           "tokens_per_second",
                           "model_flops_per_second",
                           "mfu",
                           "peak_flops_per_second",
                           "memory_peak_bytes",
                           "aux_loss",
                           "z_loss",
                           "router_max_load",
                           "dropped_fraction",
                           "shadowed_experts",
                           "comm_bytes",
                           "comm_seconds",
                           "comm_exposed_seconds",
                           "skipped_steps",
                           "expert_load",
                           "schedule",
                           "schedule_choice",
                           "ranks"})
    EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_EQ(json["memory_peak_bytes"]["activation"], int64_t{1} << 40);
  EXPECT_EQ(json["comm_exposed_seconds"]["ep"], 0.05);
  EXPECT_EQ(json["schedule"]["exposed_seconds"]["S"], 0.125);
}

TEST(MetricsJson, StepWithoutARecordingHasNoSchedule) {
  StepMetrics before = full_step(5), after = before;
  before.schedule.reset();
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(before)).contains("schedule"));
  after = std::get<StepMetrics>(parse_json_line(to_json_line(before)));
  EXPECT_FALSE(after.schedule);
}

TEST(MetricsJson, StepsReadBackExactly) {
  const StepMetrics before = full_step(5);
  const auto after = std::get<StepMetrics>(parse_json_line(to_json_line(before)));
  EXPECT_EQ(after.step, 5);
  EXPECT_EQ(after.tokens, 5120);
  EXPECT_EQ(after.loss, before.loss);
  EXPECT_EQ(after.prediction_loss, before.prediction_loss);
  EXPECT_EQ(after.grad_norm, before.grad_norm);
  EXPECT_EQ(after.memory_peak_bytes, before.memory_peak_bytes);
  EXPECT_EQ(after.comm.at("ep").bytes, 100);
  EXPECT_EQ(after.comm.at("ep").seconds, 0.2);
  EXPECT_EQ(after.comm.at("dp").exposed_seconds, 0);
  EXPECT_EQ(after.host_reads, before.host_reads);
  EXPECT_EQ(after.skipped_steps, 2);
  EXPECT_EQ(after.shadowed_experts, 1.5);
  EXPECT_EQ(after.expert_load, before.expert_load);
  ASSERT_TRUE(after.schedule);
  EXPECT_EQ(after.schedule->measured_seconds, before.schedule->measured_seconds);
  EXPECT_EQ(after.schedule->exposed_seconds, before.schedule->exposed_seconds);
  EXPECT_EQ(after.ranks, before.ranks);
  EXPECT_EQ(after.started_after, 3);
  EXPECT_EQ(after.time, before.time);
  EXPECT_EQ(to_json_line(after), to_json_line(before));
}

TEST(MetricsJson, EveryLineHasItsKindAndItsTime) {
  const auto expect_kind = [](const std::string& line, const char* kind) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("kind"), kind);
    EXPECT_EQ(json.at("time"), "2026-11-24T03:05:07.089Z");
  };
  const std::string time = full_step(1).time;
  expect_kind(to_json_line(full_step(1)), "step");
  expect_kind(to_json_line(EvalMetrics{.step = 1, .time = time}), "evaluation");
  expect_kind(to_json_line(SaveMetrics{.step = 1, .time = time}), "save");
}

TEST(MetricsJson, TimeIsInUtc) {
  const std::string time = utc_time();
  ASSERT_EQ(time.size(), std::string("2026-11-24T03:05:07.089Z").size()) << time;
  std::tm utc{};
  ASSERT_NE(strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S.", &utc), nullptr) << time;
  EXPECT_NEAR(static_cast<double>(timegm(&utc)), static_cast<double>(std::time(nullptr)), 60);
}

TEST(MetricsJson, OlderLinesAreDistinguishedByTheirKeys) {
  const auto step = std::get<StepMetrics>(parse_json_line(R"({"step":3,"loss":2.5,"mfu":1.3})"));
  EXPECT_EQ(step.loss, 2.5);
  EXPECT_EQ(step.mfu, 1.3);
  const auto eval =
      std::get<EvalMetrics>(parse_json_line(R"({"step":3,"eval_tokens":9,"eval_loss":2.5,"eval_bits_per_byte":0})"));
  EXPECT_EQ(eval.loss, 2.5);
  EXPECT_FALSE(eval.bits_per_byte) << "in older lines, 0 means that the data had no text";
  const auto save = std::get<SaveMetrics>(parse_json_line(R"({"step":3,"checkpoint_bytes":7,"checkpoint_seconds":1})"));
  EXPECT_EQ(save.bytes, 7);
}

TEST(MetricsJson, LossWithoutTargetsIsNull) {
  StepMetrics step = full_step(5);
  step.loss.reset();
  const auto json = nlohmann::json::parse(to_json_line(step));
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_FALSE(std::get<StepMetrics>(parse_json_line(json.dump())).loss);
  const std::string eval = to_json_line(EvalMetrics{.step = 5});
  EXPECT_TRUE(nlohmann::json::parse(eval).at("eval_loss").is_null());
  EXPECT_TRUE(nlohmann::json::parse(eval).at("eval_bits_per_byte").is_null());
  EXPECT_FALSE(std::get<EvalMetrics>(parse_json_line(eval)).loss);
}

TEST(MetricsJson, EvaluationsAndSavesKeepTheirTraffic) {
  const CommByClass comm{{"ep", {.bytes = 7, .seconds = 0.5, .exposed_seconds = 0.25}}};
  const auto eval = std::get<EvalMetrics>(
      parse_json_line(to_json_line(EvalMetrics{.step = 1, .tokens = 1, .loss = 1, .seconds = 2, .comm = comm})));
  EXPECT_EQ(eval.seconds, 2);
  EXPECT_EQ(eval.comm.at("ep").bytes, 7);
  const auto save = std::get<SaveMetrics>(parse_json_line(to_json_line(SaveMetrics{.step = 1, .comm = comm})));
  EXPECT_EQ(save.comm.at("ep").exposed_seconds, 0.25);
}

TEST(MetricsJson, HigherPeakCorrectsTheMfuOfTheSameStart) {
  std::string lines;
  const auto add = [&](int64_t step, int64_t started_after, double peak) {
    StepMetrics s = full_step(step);
    s.started_after = started_after;
    s.model_flops_per_second = 10;
    s.peak_flops_per_second = peak;
    s.mfu = 10 / peak;
    lines += to_json_line(s) + "\n";
  };
  add(1, 0, 8), add(2, 0, 20);   // the machine was busy during the first measurement
  add(3, 2, 40), add(4, 2, 40);  // resumed on another machine
  const TemporaryFolder folder;
  write_text(folder / "m.jsonl", lines);
  std::vector<double> mfu;
  for (const StepMetrics& s : read_metrics(folder / "m.jsonl").steps) mfu.push_back(s.mfu);
  EXPECT_EQ(mfu, (std::vector{0.5, 0.5, 0.25, 0.25}));
}

TEST(MetricsJson, LoadsOfOlderProgramsGetTheLayersOfLaterSteps) {
  using Table = std::vector<std::vector<double>>;
  const std::vector<double> even{0.5, 0.5}, uneven{0.25, 0.75};
  const auto read_back = [](const std::vector<Table>& tables) {
    std::string lines;
    for (const Table& table : tables) {
      StepMetrics s = full_step(1);
      s.expert_load = table;
      lines += to_json_line(s) + "\n";
    }
    const TemporaryFolder folder;
    write_text(folder / "m.jsonl", lines);
    std::vector<Table> loads;
    for (const StepMetrics& s : read_metrics(folder / "m.jsonl").steps) loads.push_back(s.expert_load);
    return loads;
  };
  const Table old{even, uneven}, interleaved{{}, uneven, {}, even};
  EXPECT_EQ(read_back({old, {}, interleaved}), (std::vector<Table>{{{}, even, {}, uneven}, {}, interleaved}));
  EXPECT_EQ(read_back({old, {}, old}), (std::vector<Table>{old, {}, old}))
      << "no later step shows which layers have experts";
  EXPECT_EQ(read_back({{even}, interleaved}), (std::vector<Table>{{even}, interleaved}))
      << "the later step has two layers with experts instead of one";
}

TEST(MetricsJson, EvaluationsHaveSeparateNames) {
  const EvalMetrics before{.step = 9, .tokens = 4096, .loss = 1.75, .bits_per_byte = 0.9};
  const std::string line = to_json_line(before);
  EXPECT_FALSE(nlohmann::json::parse(line).contains("loss")) << "readers of \"loss\" must see training steps only";
  const auto after = std::get<EvalMetrics>(parse_json_line(line));
  EXPECT_EQ(after.tokens, 4096);
  EXPECT_EQ(after.loss, 1.75);
  EXPECT_EQ(after.bits_per_byte, 0.9);
}

TEST(MetricsJson, SavesHaveSeparateNames) {
  const std::string line = to_json_line(SaveMetrics{.step = 4, .bytes = 123456, .seconds = 0.25});
  EXPECT_FALSE(nlohmann::json::parse(line).contains("loss")) << "readers of \"loss\" must see training steps only";
  const auto after = std::get<SaveMetrics>(parse_json_line(line));
  EXPECT_EQ(after.step, 4);
  EXPECT_EQ(after.bytes, 123456);
  EXPECT_EQ(after.seconds, 0.25);
}

TEST(MetricsJson, NanAndInfinityAreStringsAndReadBack) {
  StepMetrics s = full_step(1);
  s.loss = std::numeric_limits<double>::quiet_NaN();
  s.grad_norm = std::numeric_limits<double>::infinity();
  s.aux_loss = -std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json_line(s));
  EXPECT_EQ(json["loss"], "NaN");
  EXPECT_EQ(json["grad_norm"], "Infinity");
  EXPECT_EQ(json["aux_loss"], "-Infinity");
  const auto after = std::get<StepMetrics>(parse_json_line(json.dump()));
  EXPECT_TRUE(std::isnan(after.loss.value()));
  EXPECT_EQ(after.grad_norm, s.grad_norm);
  EXPECT_EQ(after.aux_loss, s.aux_loss);
}

TEST(MetricsJson, DamagedLinesAreListedAndSkipped) {
  const TemporaryFolder folder;
  write_text(folder / "m.jsonl", to_json_line(full_step(1)) + "\n[1,2]\n{\"loss\":\"high\",\"step\":2}\n" +
                                     to_json_line(full_step(3)) + "\n{\"step\":4,\"lo");
  const MetricsHistory history = read_metrics(folder / "m.jsonl");
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[1].step, 3);
  EXPECT_EQ(history.unreadable_lines, (std::vector<int64_t>{2, 3, 5}));
}

TEST(MetricsJson, MissingFileIsNamed) {
  try {
    read_metrics("/nowhere/metrics.jsonl");
    FAIL() << "no error was thrown";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::data);
    EXPECT_STREQ(e.what(), "cannot open /nowhere/metrics.jsonl: no such file; expected the metrics of a run");
  }
}

}  // namespace
}  // namespace hexad::telemetry
