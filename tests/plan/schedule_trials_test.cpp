// Trials of schedules, and MPMoE's Algorithm 1, the search for the number of chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/plan/schedule_choices.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

TEST(ScheduleChoice, TriesTheBestPredictedInTurnAndKeepsTheFastest) {
  const Recipe recipe =
      small_recipe({"parallel.tp=2", "schedule.moe.duplicates=auto", "train.steps=40", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    EXPECT_EQ(choice.trials_left(), 16);
    // The first finalist is the slowest, and the third is the fastest. Ranks measure different times. The time of the
    // slowest rank counts.
    const double seconds[] = {3, 2, 1, 2};
    int step = 0;
    const auto tried =
        try_all(choice, [&](const MoeSchedule&) { return seconds[step++ / 2 % 4] * (world.rank() == 0 ? 0.5 : 1); });
    ASSERT_EQ(tried.size(), 16u);
    EXPECT_EQ(std::ranges::count(tried, recipe.schedule.moe.settled()), 4)
        << "both rounds also try the recipe's default";
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(tried[i], tried[i + 8]);
    EXPECT_EQ(tried[0], choice.candidates()[0].schedule);
    EXPECT_EQ(choice.current().schedule, tried[4]);
    EXPECT_DOUBLE_EQ(choice.current().measured_seconds(), 2) << "the time includes forward and backward";
  });
}

// The fastest schedule has the slowest first steps, which allocate buffers.
TEST(ScheduleChoice, IgnoresTheFirstStepAfterAChange) {
  const Recipe recipe =
      small_recipe({"parallel.tp=2", "schedule.moe.duplicates=auto", "train.steps=40", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const double seconds[] = {100, 3, 200, 2, 300, 1, 100, 2};
    int step = 0;
    const auto tried = try_all(choice, [&](const MoeSchedule&) { return seconds[step++ % 8]; });
    ASSERT_EQ(tried.size(), 16u);
    for (size_t i = 0; i < 16; i += 2) EXPECT_EQ(tried[i], tried[i + 1]) << "step " << i;
    EXPECT_EQ(choice.current().schedule, tried[4]);
    EXPECT_EQ(choice.current().measured, (std::vector<double>{2, 2})) << "forward and backward of two steps";
  });
}

TEST(ScheduleChoice, PredictsIfNoTwoSchedulesCanBeMeasuredTwice) {
  const auto trials_of = [](const std::string& share) {
    const Recipe recipe = small_recipe(
        {"parallel.tp=2", "schedule.moe.duplicates=auto", "train.steps=100", "schedule.moe.trial_share=" + share});
    size_t trials = 0;
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe, world);
      ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
      const size_t all = try_all(choice, [](const MoeSchedule&) { return 1.0; }).size();
      if (world.rank() == 0) trials = all;
    });
    return trials;
  };
  EXPECT_EQ(trials_of("0.07"), 0u);
  EXPECT_EQ(trials_of("0.08"), 8u) << "two schedules, each with two measured steps";
}

// Returns a recipe with an open number of chunks. All values of `duplicates` do the same work, because tensor-parallel
// ranks hold different tokens.
Recipe recipe_with_twins(const Overrides& more = {}) {
  Overrides all{"parallel.tp=2",
                "parallel.sp=true",
                "parallel.ep=2",
                "parallel.etp=1",
                "model.context=32",
                "train.steps=100",
                "schedule.moe.duplicates=auto",
                "schedule.moe.chunk_by=tokens",
                "schedule.moe.trial_share=0.5"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

TEST(ScheduleChoice, FinalistsAreNotTwinsWhileChunksAreOpen) {
  const Recipe recipe = recipe_with_twins({"schedule.moe.rows=auto"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    std::map<std::string, std::set<std::string>> families;  // the work with each number of chunks, by family
    for (const ScheduleCandidate& c : choice.candidates()) {
      MoeSchedule family = c.schedule;
      family.chunks = 0;
      families[moe::to_string(family)].insert(c.work);
    }
    std::set<std::set<std::string>> different;
    for (const auto& [name, work] : families) different.insert(work);
    EXPECT_EQ(different.size(), 2u) << "rows of slots and rows of tokens";
    EXPECT_GT(families.size(), different.size());
    const auto finalists = nlohmann::json::parse(choice.state()).at("finalists");
    EXPECT_EQ(finalists.size(), different.size()) << finalists;
  });
}

TEST(ScheduleChoice, Algorithm1HasAllTrialsIfOtherOpenChoicesMakeNoDifference) {
  const Recipe recipe = recipe_with_twins();
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    EXPECT_GT(distinct(legal(recipe), [](const MoeSchedule& s) { return s.duplicates; }).size(), 1u);
    EXPECT_TRUE(choice.searching());
  });
}

TEST(LayerSeconds, AddsTheMeansOfForwardAndBackward) {
  using enum schedule::PassKind;
  EXPECT_DOUBLE_EQ(layer_seconds({{{"layers.0.moe", forward}, {1, 2}},
                                  {{"layers.1.moe", forward}, {5, 8}},
                                  {{"layers.1.moe", backward}, {9, 14}},
                                  {{"layers.0.moe", gradient_of_shares}, {20, 20.5}}}),
                   2 + 5 + 0.5);
}

Recipe cut_recipe(const Overrides& more = {}) {
  Overrides all{"parallel.ep=2", "model.context=32", "schedule.moe.chunk_by=tokens", "train.steps=100",
                "schedule.moe.trial_share=0.3"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

double best_at_five(const MoeSchedule& s) { return 1 + 0.1 * std::abs(static_cast<double>(s.chunks) - 5); }

TEST(ScheduleChoice, Algorithm1FindsUnpredictedChunks) {
  const Recipe recipe = cut_recipe();
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const MoeSchedule predicted = choice.candidates()[0].schedule;
    EXPECT_TRUE(choice.searching()) << "only the number of chunks is open";
    const auto tried = try_all(choice, best_at_five);
    EXPECT_EQ(tried.front(), predicted);
    EXPECT_LE(tried.size(), 30u) << "the limit is 30% of 100 steps, 30 trial steps";
    EXPECT_EQ(choice.current().schedule.chunks, 5);
    EXPECT_GT(choice.current().predicted, 0);
  });
}

TEST(ScheduleChoice, Algorithm1EndsWithItsTrials) {
  const Recipe recipe = cut_recipe({"schedule.moe.trial_share=0.1"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto tried = try_all(choice, best_at_five);
    EXPECT_EQ(tried.size(), 9u) << "a fourth number would need three steps, and only one is left";
    EXPECT_EQ(distinct(tried, [](const MoeSchedule& s) { return s.chunks; }).size(), 3u);
    const auto fastest = std::ranges::min_element(tried, {}, best_at_five);
    EXPECT_EQ(choice.current().schedule, *fastest);
  });
}

// 12 chunks would win because of one fast step if minima were compared.
TEST(ScheduleChoice, Algorithm1ComparesMedians) {
  const Recipe recipe = cut_recipe({"schedule.moe.trial_share=0.5"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    int twelves = 0;
    const auto tried = try_all(
        choice, [&](const MoeSchedule& s) { return s.chunks == 12 && ++twelves == 2 ? 0.01 : best_at_five(s); });
    EXPECT_EQ(twelves, 4) << "every number has a first step that does not count, and three that do";
    for (const MoeSchedule& s : tried) EXPECT_EQ(std::ranges::count(tried, s), 4) << to_string(s);
    EXPECT_EQ(choice.current().schedule.chunks, 5);
  });
}

// MPMoE searches for the best number of chunks of each strategy, and then for the best pair. S2 is the slowest strategy
// at the number of chunks that is best for the other strategies.
TEST(ScheduleChoice, Algorithm1FindsTheChunksOfEachStrategy) {
  const Recipe recipe = cut_recipe({"train.steps=400", "schedule.moe.trial_share=0.5", "schedule.moe.memory_reuse=auto",
                                    "schedule.moe.memory_limit=100000000"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto distance = [](const MoeSchedule& s, int64_t best) {
      return std::abs(static_cast<double>(s.chunks - best));
    };
    const auto tried = try_all(choice, [&](const MoeSchedule& s) {
      return s.memory_reuse == moe::ReuseStrategy::s2 ? 1 + 0.5 * distance(s, 11) : 2 + 0.1 * distance(s, 3);
    });
    EXPECT_LE(tried.size(), 200u);
    for (const moe::ReuseStrategy strategy : {moe::ReuseStrategy::s1, moe::ReuseStrategy::s3, moe::ReuseStrategy::s4})
      EXPECT_TRUE(std::ranges::any_of(tried, [&](const MoeSchedule& s) {
        return s.memory_reuse == strategy && s.chunks == 3;
      })) << "each strategy must get its own best number of chunks";
    EXPECT_EQ(choice.current().schedule.memory_reuse, moe::ReuseStrategy::s2);
    EXPECT_EQ(choice.current().schedule.chunks, 11);
  });
}

// Twelve trial steps suffice for two of the four strategies.
TEST(ScheduleChoice, NamesTheStrategiesThatItDoesNotTry) {
  const Recipe recipe = cut_recipe({"train.steps=24", "schedule.moe.trial_share=0.5", "schedule.moe.memory_reuse=auto",
                                    "schedule.moe.memory_limit=100000000"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto tried = try_all(choice, best_at_five);
    const auto strategies = distinct(tried, [](const MoeSchedule& s) { return s.memory_reuse; });
    EXPECT_EQ(strategies.size(), 2u);
    const std::vector<moe::ReuseStrategy> untried = choice.untried();
    EXPECT_EQ(untried.size(), 2u);
    for (const moe::ReuseStrategy strategy : untried) EXPECT_FALSE(strategies.contains(strategy));
  });
}

TEST(ScheduleChoice, FindsTheChunksOfTheFastestFamily) {
  const Recipe recipe =
      open_recipe({"parallel.ep=2", "model.context=32"}, {"train.steps=200", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto tried = try_all(
        choice, [](const MoeSchedule& s) { return best_at_five(s) + (s.chunk_by == ChunkBy::tokens ? 0 : 10); });
    EXPECT_LE(tried.size(), 80u);
    EXPECT_EQ(distinct(tried, [](const MoeSchedule& s) { return s.chunk_by; }).size(), 4u)
        << "a schedule of each family must be tried";
    EXPECT_EQ(choice.current().schedule.chunk_by, ChunkBy::tokens);
    EXPECT_EQ(choice.current().schedule.chunks, 5);
  });
}

TEST(ScheduleChoice, ContinuesAfterAnInterruption) {
  for (const Recipe& recipe : {cut_recipe({"schedule.moe.trial_share=0.12"}),
                               open_recipe({"parallel.ep=2"}, {"train.steps=100", "schedule.moe.trial_share=0.2"})})
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe, world);
      const Predictor predictor(recipe, run.instance.mesh);
      ScheduleChoice whole(recipe, run.instance, predictor, world);
      const auto all = try_all(whole, best_at_five);
      for (int64_t before = 0; before < std::ssize(all); ++before) {
        ScheduleChoice begun(recipe, run.instance, predictor, world), resumed(recipe, run.instance, predictor, world);
        auto tried = try_all(begun, best_at_five, before);
        ASSERT_TRUE(resumed.resume({}, begun.state()));
        EXPECT_EQ(resumed.trials_left(), begun.trials_left());
        const auto rest = try_all(resumed, best_at_five);
        tried.insert(tried.end(), rest.begin(), rest.end());
        EXPECT_EQ(tried, all) << "interrupted after " << before;
        EXPECT_EQ(resumed.state(), whole.state());
      }
    });
}

TEST(ScheduleChoice, SearchesOnlyMicroBatchesOutsideTheKnownRange) {
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const auto chosen = [&](const Recipe& recipe, const std::string& text, const std::string& state, size_t& trials) {
      TrainingRun run(recipe, world);
      ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
      if (!text.empty()) {
        EXPECT_TRUE(choice.resume(text, state));
      }
      trials = try_all(choice, best_at_five).size();
      return std::pair{to_string(choice.current().schedule), choice.state()};
    };
    size_t trials = 0;
    const auto [text, state] = chosen(cut_recipe({"train.steps=200", "schedule.moe.trial_share=0.5"}), {}, {}, trials);
    EXPECT_GT(trials, 3u);
    const auto same = chosen(cut_recipe({"train.steps=200", "schedule.moe.trial_share=0.5"}), text, state, trials);
    EXPECT_EQ(trials, 0u) << "the times of this micro-batch were measured already";
    EXPECT_EQ(same.first, text);
    const auto larger =
        chosen(cut_recipe({"train.steps=200", "schedule.moe.trial_share=0.5", "batch.micro=4"}), text, state, trials);
    EXPECT_GT(trials, 0u);
    EXPECT_EQ(larger.first, text) << "5 chunks are best for the larger micro-batch, too";
    chosen(cut_recipe({"train.steps=200", "schedule.moe.trial_share=0.5", "batch.micro=3", "batch.global=12"}),
           larger.first, larger.second, trials);
    EXPECT_EQ(trials, 0u) << "5 chunks are best for a smaller and a larger micro-batch";
  });
}

TEST(ScheduleChoice, ResumesOnlyAllowedSchedules) {
  const Recipe recipe = cut_recipe();
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const Predictor predictor(recipe, run.instance.mesh);
    ScheduleChoice choice(recipe, run.instance, predictor, world);
    EXPECT_FALSE(choice.resume("duplicates drop, overlap sequential, chunk_by none, chunks 1", ""));
    EXPECT_FALSE(choice.resume("", ""));
    EXPECT_TRUE(choice.resume("duplicates pause_before_gate, overlap sequential, chunk_by tokens, chunks 3", ""))
        << "earlier versions saved schedules in this format";
    EXPECT_TRUE(choice.made());
    EXPECT_EQ(choice.current().schedule.chunks, 3);
  });
}

}  // namespace
}  // namespace hexad::tests
