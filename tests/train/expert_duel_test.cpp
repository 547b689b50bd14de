// Decisions of a run with schedule.moe.fused=auto: trial, duels in the first step, and checkpoints.
#include "tools/train/expert_duel.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace train;
namespace {

namespace fs = std::filesystem;

// Trial that counts its calls and returns `answer`.
struct Trial {
  std::string answer{};
  int calls = 0;
  FusedShape shape{};
  double limit = 0;

  ProveFused prove() {
    return [this](const FusedShape& s, double limit_seconds) {
      ++calls, shape = s, limit = limit_seconds;
      return answer;
    };
  }
};

ExitCode train_on(const comm::World& world, const Scratch& folder, const ProveFused& prove,
                  const std::vector<std::string>& keys) {
  std::vector<std::string> all{"run.dir=" + folder.path(), "train.steps=3",       "checkpoint.every=1",
                               "checkpoint.keep=0",        "train.precision=f32", "schedule.moe.fused=auto"};
  all.insert(all.end(), keys.begin(), keys.end());
  return Trainer(small_recipe(all), layers::Registry(), world, {}, prove).run();
}
ExitCode train_in(const Scratch& folder, const ProveFused& prove, const std::vector<std::string>& keys = {}) {
  return train_on(comm::World(), folder, prove, keys);
}

std::string fused_at(const Scratch& folder, int64_t step) {
  const std::string path = folder / base::cat("checkpoints/step-0000000", step);
  return saved_progress(io::Checkpoint::open(path, io::Check::quick)).fused;
}

std::string log_of(const Scratch& folder, int rank = 0) {
  std::ostringstream text;
  text << std::ifstream(folder / base::cat("log/rank-000", rank, ".log")).rdbuf();
  return text.str();
}

std::string decision_of(std::string_view forward, std::string_view backward) {
  return base::cat(device::name_of(test_device()), " forward ", forward, ", backward ", backward);
}
std::string plain() { return decision_of("plain", "plain"); }

TEST(ExpertDuel, FirstStepDecidesAndCheckpointsKeepTheDecision) {
  const Scratch folder;
  Trial trial;
  ASSERT_EQ(train_in(folder, trial.prove()), ExitCode::done);
  EXPECT_EQ(trial.calls, 1);
  const std::string decision = fused_at(folder, 1);
  EXPECT_TRUE(decision == decision_of("fused", "plain") || decision == decision_of("plain", "fused") ||
              decision == decision_of("fused", "fused") || decision == plain())
      << decision;
  EXPECT_EQ(fused_at(folder, 3), decision);
  for (const char* direction : {" in forward (fused ", " in backward (fused "}) {
    const size_t at = log_of(folder).find(direction);
    ASSERT_NE(at, std::string::npos) << log_of(folder);
    EXPECT_NE(log_of(folder).find(" contests, with errors of up to ", at), std::string::npos) << log_of(folder);
  }
  EXPECT_EQ(log_of(folder).find(" in 0 contests"), std::string::npos) << "both directions have contests";
}

TEST(ExpertDuel, ResumedRunKeepsTheDecisionWithoutATrial) {
  const Scratch folder;
  Trial first, second;
  ASSERT_EQ(train_in(folder, first.prove()), ExitCode::done);
  ASSERT_EQ(train_in(folder, second.prove(), {"train.steps=5"}), ExitCode::done);
  EXPECT_EQ(second.calls, 0);
  EXPECT_EQ(fused_at(folder, 5), fused_at(folder, 3));
  EXPECT_NE(log_of(folder).find("(as in the checkpoint)"), std::string::npos) << log_of(folder);
}

TEST(ExpertDuel, FailedTrialSelectsThePlainKernels) {
  const Scratch folder;
  Trial trial{.answer = "exit code 139: killed"};
  ASSERT_EQ(train_in(folder, trial.prove()), ExitCode::done);
  EXPECT_EQ(fused_at(folder, 1), plain());
  EXPECT_NE(log_of(folder).find("exit code 139: killed"), std::string::npos) << log_of(folder);
  EXPECT_EQ(log_of(folder).find(" contests"), std::string::npos) << "there is no duel after a failed trial";
}

TEST(ExpertDuel, FailureOnOneRankSelectsThePlainKernelsOnAllRanks) {
  const Scratch folder;
  on_ranks(2, [&](const comm::ProcessGroup& ranks) {
    const comm::World world(ranks);
    Trial trial{.answer = world.rank() == 1 ? "exit code 139: killed" : ""};
    ASSERT_EQ(train_on(world, folder, trial.prove(), {"parallel.ep=2"}), ExitCode::done);
    EXPECT_EQ(trial.calls, 1);
    const std::string log = log_of(folder, world.rank());
    EXPECT_NE(log.find("fused: off in backward (the trial failed on at least one rank)"), std::string::npos) << log;
    EXPECT_EQ(log.find(" contests"), std::string::npos) << log;
  });
}

TEST(ExpertDuel, TrialEndsBeforeTheWatchdogOfOtherRanks) {
  for (const auto& [watchdog, limit] : {std::pair{"0", 120.0}, {"300", 100.0}, {"900", 120.0}}) {
    const Scratch folder;
    Trial trial;
    ASSERT_EQ(train_in(folder, trial.prove(), {base::cat("distributed.watchdog_seconds=", watchdog)}), ExitCode::done);
    EXPECT_EQ(trial.limit, limit) << "distributed.watchdog_seconds " << watchdog;
  }
}

TEST(ExpertDuel, ProgramWithoutATrialUsesThePlainKernels) {
  const Scratch folder;
  ASSERT_EQ(train_in(folder, {}), ExitCode::done);
  EXPECT_EQ(fused_at(folder, 1), plain());
}

TEST(ExpertDuel, DeterministicRunsHaveNoTrial) {
  const Scratch folder;
  Trial trial;
  ASSERT_EQ(train_in(folder, trial.prove(), {"train.deterministic=true"}), ExitCode::done);
  EXPECT_EQ(trial.calls, 0);
  EXPECT_EQ(fused_at(folder, 1), "");
}

TEST(ExpertDuel, GivenChoicesHaveNoTrial) {
  for (const char* choice : {"schedule.moe.fused=on", "schedule.moe.fused=off"}) {
    const Scratch folder;
    Trial trial;
    ASSERT_EQ(train_in(folder, trial.prove(), {choice}), ExitCode::done);
    EXPECT_EQ(trial.calls, 0);
  }
}

TEST(ExpertDuel, EachStageHasItsOwnTrial) {
  const Scratch folder;
  Trial trial;
  ASSERT_EQ(train_in(folder, trial.prove(), {"stages=[{steps: 1}, {steps: 2, context: 16, batch: {global: 4}}]"}),
            ExitCode::done);
  EXPECT_EQ(trial.calls, 2);
  EXPECT_EQ(trial.shape.rows, 2 * 16 * 2) << "micro-batches of 2 sequences of 16 tokens with 2 experts each";
}

TEST(FusedTrial, UsesTheShapeOfARank) {
  const FusedShape s = fused_shape(small_recipe({"parallel.ep=2", "parallel.tp=2", "parallel.etp=1",
                                                 "model.moe.expert_hidden=24", "train.threads=2"}),
                                   3);
  EXPECT_EQ(s.place, 3);
  EXPECT_EQ(s.dtype, base::Dtype::f64);
  EXPECT_EQ(s.rows, 2 * 8 * 2 / 2) << "2 sequences of 8 tokens with 2 experts each, divided among 2 tp ranks";
  EXPECT_EQ(s.hidden, 16);
  EXPECT_EQ(s.width, 24);
  EXPECT_EQ(s.experts, 2);
  EXPECT_EQ(s.threads, 2);
}

TEST(FusedTrial, FusedAndPlainKernelsAgreeForFewRowsAndExperts) {
  for (const auto& [rows, experts] : {std::pair{1, 1}, {3, 4}, {70, 5}}) {
    const FusedScores scores = try_fused({.device = test_device(),
                                          .place = 0,
                                          .dtype = base::Dtype::bf16,
                                          .rows = rows,
                                          .hidden = 40,
                                          .width = 128,
                                          .experts = experts});
    for (const kernels::DuelScore& score : {scores.forward, scores.backward}) {
      EXPECT_TRUE(score.agrees()) << rows << " rows, " << score.failure << score.error;
      EXPECT_EQ(score.contests, 6);
    }
  }
}

}  // namespace
}  // namespace hexad::tests
