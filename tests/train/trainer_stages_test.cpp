// Runs in stages: a run continues from stage to stage, and ends with the same tensors if it is interrupted.
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/telemetry/metrics_json.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/report/run_history.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

namespace fs = std::filesystem;

constexpr const char* stages =
    "stages=[{steps: 3}, {steps: 3, context: 16, rotary_theta: 500000, batch: {global: 4}}, {steps: 2, context: 32, "
    "recompute: block, batch: {global: 2, micro: 1}, lr: 0.004, schedule: {moe: {chunk_by: tokens, chunks: 2}}}]";

std::string checkpoint(const Scratch& folder, int64_t step) {
  return folder / base::cat("checkpoints/step-0000000", step);
}

// Step in which the adviser fails, and context length for which its constructor fails. 0: no failure.
struct Failures {
  int64_t failing_step = 0, failing_context = 0;
};
class Adviser final : public ScheduleAdviser {
 public:
  Adviser(const AdvisedRun& run, const Failures& failures)
      : failures_(failures), timeline_(base::cat("timeline of context ", run.recipe.model.context)) {
    if (run.recipe.model.context == failures.failing_context)
      base::fail(ExitCode::resource, "no adviser for this context");
  }
  void begin_step(int64_t step) override {
    if (step == failures_.failing_step) base::fail(ExitCode::resource, "no advice");
  }
  void end_step(const StepResult&, telemetry::StepMetrics&) override {}
  void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>&) const override {
    report.timelines = {timeline_};
  }

 private:
  const Failures failures_;
  const std::string timeline_;
};

ExitCode train_in(const Scratch& folder, MakeAdviser make_adviser = {}, const std::vector<std::string>& keys = {}) {
  const comm::World world;
  std::vector<std::string> all{stages,
                               "train.steps=8",
                               "run.dir=" + folder.path(),
                               "checkpoint.every=1",
                               "checkpoint.keep=0",
                               "train.precision=f32",
                               "model.moe.bias_rate=0.01",
                               "optim.schedule=cosine"};
  all.insert(all.end(), keys.begin(), keys.end());
  const Registry extensions;
  return Trainer(small_recipe(all), extensions, world, std::move(make_adviser)).run();
}
MakeAdviser advised(const Failures& failures) {
  return [failures](const AdvisedRun& run) { return std::make_unique<Adviser>(run, failures); };
}

std::vector<std::string> digests(const Scratch& folder, int64_t step) {
  auto opened = io::Checkpoint::open(checkpoint(folder, step), io::Check::full);
  std::vector<std::string> all;
  for (const auto& t : opened.manifest().tensors)
    for (const auto& piece : t.pieces) all.push_back(t.name + " " + piece.digest);
  EXPECT_GT(all.size(), 10u);
  return all;
}

TEST(TrainerStages, InterruptedRunEndsWithTheSameTensors) {
  const Scratch whole;
  ASSERT_EQ(train_in(whole), ExitCode::done);
  for (const int64_t step : {2, 3, 5, 6, 7}) {  // 3 and 6 are ends of stages
    SCOPED_TRACE(testing::Message() << "interrupted after step " << step);
    const Scratch resumed;
    fs::create_directories(resumed / "checkpoints");
    fs::copy(checkpoint(whole, step), checkpoint(resumed, step), fs::copy_options::recursive);
    ASSERT_EQ(train_in(resumed), ExitCode::done);
    EXPECT_EQ(digests(resumed, 8), digests(whole, 8));
  }
}

TEST(TrainerStages, DataContinueAtTheSameToken) {
  const Scratch run;
  ASSERT_EQ(train_in(run), ExitCode::done);
  const auto progress = [&](int64_t step) {
    return saved_progress(io::Checkpoint::open(checkpoint(run, step), io::Check::quick));
  };
  EXPECT_EQ(progress(3).next_sequence, 3 * 8);       // sequences of 8 tokens
  EXPECT_EQ(progress(6).next_sequence, 12 + 3 * 4);  // sequences of 16 tokens
  EXPECT_EQ(progress(8).next_sequence, 12 + 2 * 2);  // sequences of 32 tokens
  EXPECT_EQ(progress(8).tokens, 8 * 64);
}

// The first update makes weights so large that no later loss is finite: steps 2 and 3 of the first stage are skipped.
TEST(TrainerStages, SkippedStepsAreCountedOverStages) {
  const Scratch run;
  const std::string text = message_of(ExitCode::numeric, [&] {
    train_in(run, {}, {"optim.lr=1e18", "train.max_skipped=3"});
  });
  EXPECT_EQ(text.find("step 4: 3 steps in a row without a finite loss"), 0u) << text;
}

TEST(TrainerStages, StagesAreSavedEvenIfTheEndIsNot) {
  const Scratch run;
  const comm::World world;
  const Recipe recipe =
      small_recipe({stages, "train.steps=8", "run.dir=" + run.path(), "checkpoint.keep=0", "checkpoint.at_end=false"});
  ASSERT_EQ(Trainer(recipe, Registry(), world).run(), ExitCode::done);
  EXPECT_TRUE(fs::exists(checkpoint(run, 3)));
  EXPECT_TRUE(fs::exists(checkpoint(run, 6)));
  EXPECT_FALSE(fs::exists(checkpoint(run, 8)));
}

TEST(TrainerStages, MetricsAndHistoryNameTheStage) {
  const Scratch run;
  ASSERT_EQ(train_in(run), ExitCode::done);
  std::vector<int64_t> of_steps;
  for (const auto& step : telemetry::read_metrics(run / "metrics.jsonl").steps) of_steps.push_back(step.stage);
  EXPECT_EQ(of_steps, (std::vector<int64_t>{1, 1, 1, 2, 2, 2, 3, 3}));
  const RunHistory history = read_history(run.path());
  ASSERT_EQ(history.starts.size(), 3u);
  EXPECT_EQ(history.starts[1].changes.at(0), "stage 2 of 3: steps 4 to 6");
  EXPECT_EQ(history.starts[1].changes.at(1), "model.context: 8 -> 16");
  EXPECT_EQ(history.starts[1].changes.at(2), "model.rotary_theta: 10000 -> 500000");
  EXPECT_EQ(ending_of(history).outcome, Outcome::finished);
}

TEST(TrainerStages, ReportHasTheTimelinesOfAllStages) {
  const Scratch run;
  ASSERT_EQ(train_in(run, advised({})), ExitCode::done);
  EXPECT_EQ(read_history(run.path()).end->timelines,
            (std::vector<std::string>{"timeline of context 8", "timeline of context 16", "timeline of context 32"}));
}

TEST(TrainerStages, FailureBeforeTheFirstStepOfALaterStageIsReported) {
  for (const Failures& failures : {Failures{.failing_step = 4}, Failures{.failing_context = 16}}) {
    SCOPED_TRACE(testing::Message() << "failing step " << failures.failing_step << ", failing context "
                                    << failures.failing_context);
    const Scratch run;
    message_of(ExitCode::resource, [&] { train_in(run, advised(failures)); });
    const RunEnding ending = ending_of(read_history(run.path()));
    EXPECT_EQ(ending.outcome, Outcome::failed);
    EXPECT_TRUE(ending.trouble.starts_with("The run failed after step 3: no advi")) << ending.trouble;
    EXPECT_TRUE(fs::exists(run / "report.html"));
  }
}

TEST(TrainerStages, SavedRunHasTheKeysOfItsCheckpointsStage) {
  const Scratch run;
  ASSERT_EQ(train_in(run), ExitCode::done);
  for (const auto& [step, context] : {std::pair<const char*, int64_t>{"3", 8}, {"4", 16}, {"auto", 32}}) {
    EXPECT_EQ(open_run(run.path(), {}, step, Registry()).recipe.model.context, context) << step;
    EXPECT_EQ(open_run(run.path(), {"model.context=4"}, step, Registry()).recipe.model.context, 4) << step;
  }
  const auto recipe = [&](const char* step) { return open_run(run.path(), {}, step, Registry()).recipe; };
  EXPECT_EQ(recipe("3").model.rotary_theta, 10000);
  EXPECT_EQ(recipe("6").model.rotary_theta, 500000);
  EXPECT_EQ(recipe("7").model.rotary_theta, 10000);
  EXPECT_EQ(recipe("6").schedule.moe.chunk_by, moe::ChunkBy::none);
  EXPECT_EQ(recipe("7").schedule.moe.chunk_by, moe::ChunkBy::tokens);
}

TEST(TrainerStages, StageTrainsWithItsRotaryTheta) {
  const Scratch one, other;
  ASSERT_EQ(train_in(one), ExitCode::done);
  ASSERT_EQ(train_in(other, {}, {"stages.1.rotary_theta=10000"}), ExitCode::done);
  EXPECT_EQ(digests(one, 3), digests(other, 3));
  EXPECT_NE(digests(one, 4), digests(other, 4));
}

TEST(TrainerStages, UnstagedRunContinuesInStagesButNotTheReverse) {
  const Scratch run;
  const comm::World world;
  const std::vector<std::string> common{"run.dir=" + run.path(), "checkpoint.keep=0"};
  const auto train = [&](std::vector<std::string> keys) {
    keys.insert(keys.end(), common.begin(), common.end());
    return Trainer(small_recipe(keys), Registry(), world).run();
  };
  ASSERT_EQ(train({"train.steps=3"}), ExitCode::done);
  const std::string early = message_of(ExitCode::usage, [&] {
    train({"stages=[{steps: 2}, {steps: 2, context: 16}]", "train.steps=4"});
  });
  EXPECT_NE(early.find("model.context of step 3: 8 -> 16"), std::string::npos) << early;
  ASSERT_EQ(train({"stages=[{steps: 3}, {steps: 2, context: 16, rotary_theta: 500000}]", "train.steps=5"}),
            ExitCode::done);
  const std::string text = message_of(ExitCode::usage, [&] { train({"train.steps=6"}); });
  EXPECT_NE(text.find("model.context: 16 -> 8"), std::string::npos) << text;
  EXPECT_NE(text.find("model.rotary_theta: 500000 -> 10000"), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::tests
