// Legal values of an open schedule.moe.memory_reuse under a memory limit.
#include "tools/plan/within_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/schedule_choice.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

using namespace plan;

using Overrides = std::vector<std::string>;

std::set<moe::ReuseStrategy> strategies_of(const std::vector<moe::MoeSchedule>& schedules) {
  std::set<moe::ReuseStrategy> all;
  for (const moe::MoeSchedule& s : schedules) all.insert(s.memory_reuse);
  return all;
}

// Returns the allowed schedules on two ranks.
WithinMemory allowed(const Recipe& r) {
  const Extensions none;
  return MemoryNeeds(r, none, 2).within(legal_schedules(r, none));
}

TEST(AllowedSchedules, ReuseMemoryOnlyWhenKeepingExceedsTheLimit) {
  const auto restores = [](double limit) {
    const Recipe r = small_recipe({"parallel.ep=2", "schedule.moe.memory_reuse=auto", "schedule.moe.chunk_by=tokens",
                                   cat("memory.limit_bytes=", static_cast<int64_t>(limit)), "model.context=64"});
    return strategies_of(allowed(r).schedules);
  };
  const Recipe free = small_recipe(
      {"parallel.ep=2", "schedule.moe.memory_reuse=auto", "schedule.moe.chunk_by=tokens", "model.context=64"});
  const WithinMemory m = allowed(free);
  ASSERT_LT(m.least, m.kept);
  const std::set<moe::ReuseStrategy> keep{moe::ReuseStrategy::none};
  EXPECT_EQ(restores(0), keep) << "without a limit, activations are kept";
  EXPECT_EQ(restores(1.01 * m.kept), keep);
  EXPECT_FALSE(restores(0.99 * m.kept).contains(moe::ReuseStrategy::none));
  EXPECT_FALSE(restores(0.99 * m.kept).empty());
  EXPECT_FALSE(restores(0.5 * m.least).empty()) << "if no schedule fits, those with the smallest estimate remain";
  EXPECT_FALSE(restores(0.5 * m.least).contains(moe::ReuseStrategy::none));
}

// The limit suffices for evenly spread tokens, but not if all tokens choose the experts of one rank.
TEST(AllowedSchedules, StayWithinTheLimitForSkewedRouting) {
  const Scratch scratch;
  const auto recipe = [&](const Overrides& more) {
    Overrides all{"parallel.ep=2",
                  "model.hidden=64",
                  "model.context=64",
                  "model.layers=4",
                  "model.moe.expert_hidden=128",
                  "batch.micro=4",
                  "batch.global=16",
                  "train.precision=f32",
                  "schedule.moe.chunk_by=tokens",
                  "train.steps=4",
                  "schedule.moe.trial_share=0"};
    all.insert(all.end(), more.begin(), more.end());
    return small_recipe(all);
  };
  const Recipe keeping = recipe({"schedule.moe.memory_reuse=none", "schedule.moe.chunks=2"});
  const double even = estimate_memory(keeping, {}, 2).blocks,
               worst = estimate_memory(keeping, {}, 2, RoutingLoad::one_rank).blocks;
  const auto limit = static_cast<int64_t>(1.1 * even);
  ASSERT_GT(worst, 1.2 * static_cast<double>(limit));
  const Overrides skewed{"model.moe.routing=trace", "model.moe.trace=" + scratch / "routes"};
  int loaded = 0;  // this rank has the experts that all tokens choose
  const auto peak_of = [&](const Overrides& more,
                           const std::function<void(TrainingRun&, const comm::ProcessGroup&)>& begin) {
    int64_t most = 0;
    Overrides all = skewed;
    all.insert(all.end(), more.begin(), more.end());
    const Recipe r = recipe(all);
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(r, world);
      const FixedSource source = documents_of(r);
      begin(run, world);
      for (int step = 0; step < 2; ++step) run.step(source);
      const int64_t peak = run.instance.context.allocator()->stats().peak_total;
      if (world.rank() == loaded) most = peak;
    });
    return most;
  };
  for (loaded = 0; loaded < 2; ++loaded) {
    SCOPED_TRACE(loaded);
    std::ofstream(scratch / "routes") << (loaded == 0 ? "0 1\n" : "2 3\n");
    EXPECT_GT(peak_of({"schedule.moe.memory_reuse=none", "schedule.moe.chunks=2"}, [](auto&, auto&) {}), limit)
        << "runs that keep all activations must exceed the limit";
    // The allocator refuses allocations above the limit.
    const int64_t chosen = peak_of({"schedule.moe.memory_reuse=auto", cat("memory.limit_bytes=", limit)},
                                   [](TrainingRun& run, const comm::ProcessGroup& world) {
                                     const ScheduleChoice choice(run.recipe, run.instance,
                                                                 Predictor(run.recipe, run.instance.mesh), world);
                                     EXPECT_NE(choice.current().schedule.memory_reuse, moe::ReuseStrategy::none);
                                     EXPECT_TRUE(choice.current().schedule.memory_limit.has_value());
                                   });
    EXPECT_GT(chosen, 0);
    EXPECT_LE(chosen, limit);
  }
}

TEST(AllowedSchedules, AllReuseMemoryUnderABufferLimit) {
  const Recipe r =
      small_recipe({"parallel.ep=2", "schedule.moe.memory_reuse=auto", "schedule.moe.memory_limit=100000000"});
  EXPECT_EQ(strategies_of(allowed(r).schedules).size(), 4u);
}

}  // namespace
}  // namespace hexad::tests
