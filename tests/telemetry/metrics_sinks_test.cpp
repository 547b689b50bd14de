// Sinks of metrics: the file of a resumed run, full disks, and the order of several sinks.
#include <gtest/gtest.h>

#include <utility>

#include "framework/base/error.h"
#include "framework/telemetry/jsonl_sink.h"
#include "framework/telemetry/metrics.h"
#include "framework/telemetry/metrics_json.h"
#include "tests/telemetry/full_step.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

RunInfo resumed_after(int64_t step) {
  RunInfo run;
  run.first_step = step;
  return run;
}

std::vector<int64_t> steps_after_resuming(const std::filesystem::path& path, int64_t first_step) {
  JsonlSink sink(path);
  sink.on_start(resumed_after(first_step));
  std::vector<int64_t> steps;
  for (const auto& s : read_metrics(path).steps) steps.push_back(s.step);
  return steps;
}

TEST(JsonlSink, ResumingCutsRecordsOfRepeatedSteps) {
  const TemporaryFolder folder;
  const auto path = folder / "run/metrics.jsonl";
  {
    JsonlSink sink(path);
    sink.on_start({});
    for (int64_t step = 1; step <= 6; ++step) {
      sink.on_step(full_step(step));
      if (step % 2 == 0) sink.on_eval({.step = step, .loss = 1});
    }
  }
  EXPECT_EQ(steps_after_resuming(path, 4), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(read_metrics(path).evals.size(), 2u)
      << "the evaluations of steps 2 and 4 must remain, and the evaluation of step 6 must be removed";
  EXPECT_EQ(steps_after_resuming(path, 9), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(steps_after_resuming(path, 0), std::vector<int64_t>{}) << "a new run starts an empty file";
}

TEST(JsonlSink, NewEvaluationOfTheLastStepReplacesEarlierEvaluations) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const auto step = to_json_line(full_step(1)) + "\n" + to_json_line(full_step(2)) + "\n";
  const auto save = to_json_line(SaveMetrics{.step = 2, .bytes = 8, .seconds = 1}) + "\n";
  const auto eval = [](double loss) { return to_json_line(EvalMetrics{.step = 2, .loss = loss}) + "\n"; };
  write_text(path, step + eval(4) + save + eval(3));
  JsonlSink sink(path);
  sink.on_start(resumed_after(2));
  EXPECT_EQ(contents(path), step + eval(4) + save + eval(3))
      << "earlier evaluations remain until a new evaluation arrives";
  sink.on_eval({.step = 2, .loss = 1});
  EXPECT_EQ(contents(path), step + save + eval(1));
  sink.on_step(full_step(3));
  sink.on_eval({.step = 3, .loss = 0.5});
  EXPECT_EQ(read_metrics(path).evals.size(), 2u);
}

TEST(JsonlSink, ResumingRemovesOnlyATornLastLine) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string whole = to_json_line(full_step(1)) + "\nnot ours\n";
  write_text(path, whole + R"({"step":2,"loss":1})");  // complete JSON whose newline was lost when the process died
  JsonlSink sink(path);
  sink.on_start(resumed_after(5));
  EXPECT_EQ(contents(path), whole);
  sink.on_step(full_step(6));
  EXPECT_EQ(contents(path), whole + to_json_line(full_step(6)) + "\n");
}

TEST(JsonlSink, UnwritableRunDirectoryFailsAtTheStart) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  // The path leads through a file, so even root cannot create it.
  const auto path = folder / "file/metrics.jsonl";
  auto sink = tolerate_failures(std::make_unique<JsonlSink>(path),
                                [](const std::string& warning) { FAIL() << "expected no warning: " << warning; });
  try {
    sink->on_start({});
    FAIL() << "no error was thrown";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::resource);
    EXPECT_EQ(e.what(), "cannot open " + path.string() + " for writing: Not a directory");
  }
}

TEST(TolerantSink, FullDiskGivesOneWarningAndTrainingContinues) {
  std::vector<std::string> warnings;
  auto sink = tolerate_failures(std::make_unique<JsonlSink>("/dev/full"),
                                [&](const std::string& warning) { warnings.push_back(warning); });
  sink->on_start({});
  for (int64_t step = 1; step <= 3; ++step) sink->on_step(full_step(step));
  sink->on_eval({.step = 3});
  sink->on_end();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "cannot write to /dev/full: No space left on device; training continues, but records may be missing");
}

/// Sink that throws Error(resource) on step 2, as on a full disk, and std::logic_error on step 4, as after a bug.
struct FlakySink : MetricsSink {
  explicit FlakySink(std::vector<int64_t>& log) : seen(log) {}
  void on_step(const StepMetrics& s) override {
    if (s.step == 2) base::fail(base::ExitCode::resource, "full");
    if (s.step == 4) base::require(false, "a bug");
    seen.push_back(s.step);
  }
  std::vector<int64_t>& seen;
};

TEST(TolerantSink, LaterRecordsAreWrittenOnceTheDiskHasSpace) {
  std::vector<int64_t> seen;
  auto sink = tolerate_failures(std::make_unique<FlakySink>(seen), [](const std::string&) {});
  for (int64_t step = 1; step <= 3; ++step) sink->on_step(full_step(step));
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 3}));
}

TEST(TolerantSink, BugsAreNotHidden) {
  std::vector<int64_t> seen;
  auto sink = tolerate_failures(std::make_unique<FlakySink>(seen), [](const std::string&) {});
  EXPECT_THROW(sink->on_step(full_step(4)), std::logic_error);
}

struct Recorder : MetricsSink {
  explicit Recorder(std::string& log, std::string prefix) : calls(log), name(std::move(prefix)) {}
  void on_start(const RunInfo&) override { calls += name + "start "; }
  void on_step(const StepMetrics&) override { calls += name + "step "; }
  void on_eval(const EvalMetrics&) override { calls += name + "eval "; }
  void on_end() override { calls += name + "end "; }
  std::string& calls;
  std::string name;
};

TEST(MetricsHub, PassesRecordsToEachSinkInOrder) {
  std::string calls;
  MetricsHub hub;
  hub.add(std::make_unique<Recorder>(calls, "a:"));
  hub.add(std::make_unique<Recorder>(calls, "b:"));
  hub.on_start({}), hub.on_step({}), hub.on_eval({}), hub.on_end();
  EXPECT_EQ(calls, "a:start b:start a:step b:step a:eval b:eval a:end b:end ");
}

}  // namespace
}  // namespace hexad::telemetry
