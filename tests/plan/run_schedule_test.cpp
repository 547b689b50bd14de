// Training runs that choose the schedule of their MoE layers, and continue with it.
#include "tools/plan/run_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "parallel/comm/thread_group.h"
#include "parallel/comm/world.h"
#include "tests/plan/schedule_choices.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

std::string log_of(const Scratch& folder) {
  std::ostringstream text;
  text << std::ifstream(folder / "log/rank-0000.log").rdbuf();
  return text.str();
}

ExitCode train_20_steps(const Scratch& folder) {
  const comm::World world;
  const Overrides keys{"run.dir=" + folder.path(), "train.steps=20", "checkpoint.every=2", "checkpoint.keep=0",
                       "train.precision=f32"};
  return Trainer(open_recipe(keys, {"schedule.moe.trial_share=0.5"}), Registry(), world, RunSchedule::make).run();
}

void copy_checkpoint(const std::string& name, const Scratch& from, const Scratch& to) {
  std::filesystem::create_directories(to / "checkpoints");
  std::filesystem::copy(from / ("checkpoints/" + name), to / ("checkpoints/" + name),
                        std::filesystem::copy_options::recursive);
}

TEST(Trainer, ResumedAfterItsChoiceIsBitwiseIdentical) {
  const Scratch whole, resumed;
  const auto shard = [](const Scratch& folder) {
    std::ostringstream bytes;
    bytes << std::ifstream(folder / "checkpoints/step-00000020/shard-00000-of-00001.safetensors").rdbuf();
    return bytes.str();
  };
  ASSERT_EQ(train_20_steps(whole), ExitCode::done);
  copy_checkpoint("step-00000010", whole, resumed);
  ASSERT_EQ(train_20_steps(resumed), ExitCode::done);
  EXPECT_NE(log_of(resumed).find("schedule.moe: keeps the earlier choice: "), std::string::npos) << log_of(resumed);
  ASSERT_GT(shard(whole).size(), 1000u);
  EXPECT_TRUE(shard(whole) == shard(resumed));
}

TEST(Trainer, ResumedBeforeItsChoiceContinuesItsTrials) {
  const Scratch whole, resumed;
  ASSERT_EQ(train_20_steps(whole), ExitCode::done);
  copy_checkpoint("step-00000004", whole, resumed);  // 3 of the 10 trial steps are done
  ASSERT_EQ(train_20_steps(resumed), ExitCode::done);
  EXPECT_NE(log_of(resumed).find("schedule.moe: continues to choose, with at most 7 more trial steps"),
            std::string::npos)
      << log_of(resumed);
  EXPECT_NE(log_of(resumed).find("schedule.moe: chosen "), std::string::npos) << log_of(resumed);
}

// Predictions alone decide in a run with four trial steps.
TEST(Trainer, LogsTheStrategiesOfMemoryReuseThatItDoesNotTry) {
  const Scratch folder;
  const comm::World world;
  const Recipe recipe =
      small_recipe({"run.dir=" + folder.path(), "train.steps=8", "train.precision=f32", "schedule.moe.chunk_by=tokens",
                    "schedule.moe.chunks=2", "schedule.moe.memory_reuse=auto", "schedule.moe.memory_limit=100000000",
                    "schedule.moe.trial_share=0.5"});
  ASSERT_EQ(Trainer(recipe, Registry(), world, RunSchedule::make).run(), ExitCode::done);
  const std::string log = log_of(folder), begin = "schedule.moe.memory_reuse: not tried, and excluded by predictions";
  const size_t at = log.find(begin);
  ASSERT_NE(at, std::string::npos) << log;
  const std::string line = log.substr(at, log.find('\n', at) - at);
  EXPECT_EQ(std::ranges::count(line, ','), 3) << "three of four strategies must be named: " << line;
  EXPECT_NE(line.find("raise schedule.moe.trial_share (now 0.5) or train.steps (now 8)"), std::string::npos) << line;
}

TEST(Trainer, DecidesAnewAtStepsOfReDecision) {
  const Scratch folder;
  const comm::World world;
  const Overrides keys{"run.dir=" + folder.path(), "train.steps=6", "train.precision=f32"};
  ASSERT_EQ(Trainer(open_recipe(keys, {"schedule.moe.trial_share=0", "schedule.moe.redecide_every=3"}), Registry(),
                    world, RunSchedule::make)
                .run(),
            ExitCode::done);
  const std::string log = log_of(folder);
  for (const char* step : {"re-decision of step 3: ", "re-decision of step 6: "})
    EXPECT_NE(log.find(std::string("schedule.moe: ") + step), std::string::npos) << log;
  EXPECT_EQ(log.find("re-decision of step 1: "), std::string::npos) << log;
}

TEST(Trainer, KeepsItsChoiceAfterAResume) {
  const Scratch folder;
  const auto train = [&](int steps) {
    const comm::World world;
    const Overrides keys{"run.dir=" + folder.path(), cat("train.steps=", steps)};
    return Trainer(open_recipe(keys, {"schedule.moe.trial_share=0.5"}), Registry(), world, RunSchedule::make).run();
  };
  ASSERT_EQ(train(18), ExitCode::done);
  const std::string first = log_of(folder);
  const size_t at = first.find("schedule.moe: chosen ");
  ASSERT_NE(at, std::string::npos) << first;
  const size_t begin = at + std::string("schedule.moe: chosen ").size();
  const std::string chosen = first.substr(begin, first.find(':', begin) - begin);
  ASSERT_EQ(train(20), ExitCode::done);
  EXPECT_NE(log_of(folder).find("schedule.moe: keeps the earlier choice: " + chosen), std::string::npos)
      << log_of(folder);
}

}  // namespace
}  // namespace hexad::tests
