// Comparison of the papers' advice with a run's choice.
#include "tools/plan/advice_verdicts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/cluster.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

using namespace plan;

// Returns a cluster of 4 ranks whose products were measured for one and for two experts.
Cluster cluster_of_4_ranks() {
  Cluster cluster = default_cluster(1, 4);
  for (MeasuredProduct two : std::vector<MeasuredProduct>(cluster.products)) {
    std::vector<config::Curve::Point> points;
    for (const auto& [rows, seconds] : two.points.points) points.push_back({2 * rows, 2 * seconds});
    two.experts = 2, two.points = points;
    cluster.products.push_back(std::move(two));
  }
  return cluster;
}

// Chooses a schedule for `keys` on 4 ranks from predictions alone. Calls `check` with the comparison of this schedule
// with the papers' advice.
void compare_choice(std::vector<std::string> keys, const std::function<void(const telemetry::ChoiceMetrics&)>& check) {
  const Scratch folder;
  std::ofstream(folder / "cluster.yaml") << to_yaml(cluster_of_4_ranks());
  keys.insert(keys.end(), {"parallel.tp=2", "parallel.ep=2", "schedule.profile=" + (folder / "cluster.yaml"),
                           "schedule.moe.trial_share=0", "train.precision=f32"});
  const Recipe recipe = small_recipe(keys);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const Predictor predictor(recipe, run.instance.mesh);
    const ScheduleChoice choice(recipe, run.instance, predictor, world);
    ASSERT_TRUE(choice.made());
    const telemetry::ChoiceMetrics all = compare_advice(recipe, run.instance, predictor, world, choice);
    EXPECT_EQ(all.schedule, moe::to_string(choice.current().schedule));
    EXPECT_EQ(all.measured_seconds, 0) << "nothing was tried";
    ASSERT_EQ(all.advice.size(), 4u);
    check(all);
  });
}

TEST(AdviceVerdicts, CompareEveryAdviserWithThePrediction) {
  compare_choice({"schedule.moe.duplicates=auto", "schedule.moe.overlap=auto", "schedule.moe.chunk_by=auto"},
                 [](const telemetry::ChoiceMetrics& all) {
                   for (const telemetry::AdviceMetrics& a : all.advice) {
                     EXPECT_TRUE(a.verdict == "right" || a.verdict == "wrong") << plan::to_string(a);
                     EXPECT_FALSE(a.measured);
                     EXPECT_TRUE(moe::schedule_named(a.schedule)) << a.schedule;
                     if (a.verdict == "right") {
                       EXPECT_LE(a.slower, 0) << a.adviser;
                     } else {
                       EXPECT_GT(a.slower, 0) << a.adviser;
                     }
                   }
                 });
}

TEST(AdviceVerdicts, AreNoneIfTheRecipeSetsAnotherValue) {
  compare_choice(
      {"schedule.moe.duplicates=baseline", "schedule.moe.chunk_by=auto"}, [](const telemetry::ChoiceMetrics& all) {
        int compared = 0;
        for (const telemetry::AdviceMetrics& a : all.advice) {
          if (a.adviser != "MoNTA" && a.adviser != "Parm") continue;
          ++compared;
          EXPECT_EQ(a.verdict, "none") << plan::to_string(a);
          EXPECT_EQ(a.reason, "the recipe sets another value than the advised one for schedule.moe.duplicates");
          EXPECT_TRUE(a.schedule.empty());
        }
        EXPECT_EQ(compared, 2);
      });
}

ScheduleCandidate candidate(double predicted, std::string work, std::vector<double> measured = {}) {
  return {.schedule = {}, .predicted = predicted, .work = std::move(work), .measured = std::move(measured)};
}

TEST(AdviceVerdicts, AreRightIfTheAdviceIsAsGoodAsTheChoice) {
  const ScheduleCandidate chosen = candidate(2, "a", {3, 3.5});
  EXPECT_TRUE(as_good_as(chosen, candidate(2, "a"))) << "the same work has another name";
  EXPECT_TRUE(as_good_as(chosen, candidate(1, "b"))) << "without trials of the advice, predictions count";
  EXPECT_FALSE(as_good_as(chosen, candidate(2.5, "b")));
  EXPECT_TRUE(as_good_as(chosen, candidate(9, "b", {2, 2}))) << "with trials of both, predictions do not count";
  EXPECT_TRUE(as_good_as(chosen, candidate(9, "b", {3.2, 3.6}))) << "the times are indistinct";
  EXPECT_FALSE(as_good_as(chosen, candidate(1, "b", {5, 5})));
}

TEST(AdviceVerdicts, AreDescribedInOneLine) {
  EXPECT_EQ(plan::to_string(telemetry::AdviceMetrics{
                .adviser = "Parm", .schedule = "chunks 4", .verdict = "wrong", .slower = 0.125, .measured = true}),
            "Parm: wrong; the advised schedule (chunks 4) is 12.5% slower (measured) than the chosen schedule");
  EXPECT_EQ(plan::to_string(telemetry::AdviceMetrics{.adviser = "MoNTA", .verdict = "none", .reason = "needs tp"}),
            "MoNTA: no advice: needs tp");
}

}  // namespace
}  // namespace hexad::tests
