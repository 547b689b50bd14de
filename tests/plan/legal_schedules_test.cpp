// Schedules that the program may choose for recipes with the value auto.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/plan/schedule_choices.h"
#include "tests/training/training.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

TEST(LegalSchedules, ContainOnlyTheRecipesScheduleIfNoKeyIsOpen) {
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"});
  ASSERT_EQ(legal(recipe).size(), 1u);
  EXPECT_EQ(legal(recipe)[0], recipe.schedule.moe.settled());
}

TEST(LegalSchedules, AreTheChunkingsIfNoTokenIsHeldTwice) {
  const auto all = legal(open_recipe({"parallel.ep=2"}));
  EXPECT_EQ(distinct(all, [](const MoeSchedule& s) { return s.duplicates; }),
            std::set<Duplicates>{Duplicates::pause_before_gate});
  std::set<std::string> texts = distinct(all, [](const MoeSchedule& s) { return to_string(s); });
  EXPECT_EQ(texts.size(), all.size());
  // One schedule has no chunks. Four schedules have 2, 4, 8 or 16 chunks of tokens. One schedule has a chunk of nodes
  // for each of the two ranks. One schedule has a chunk for each of the two experts of a rank.
  EXPECT_EQ(all.size(), 1u + 4 + 1 + 1);
}

TEST(LegalSchedules, DivideExpertsIntoEveryNumberOfEqualGroups) {
  const auto all = legal(small_recipe(
      {"parallel.ep=2", "model.moe.experts=40", "schedule.moe.chunk_by=experts", "schedule.moe.chunks=auto"}));
  EXPECT_EQ(distinct(all, [](const MoeSchedule& s) { return s.chunks; }), (std::set<int64_t>{2, 4, 5, 10, 20}))
      << "EPS-MoE divides 20 experts of a rank into 5 or 20 groups";
}

TEST(LegalSchedules, Algorithm1HasTheSameGroupsOfExperts) {
  const Recipe recipe = small_recipe({"parallel.ep=2", "model.moe.experts=12", "schedule.moe.chunk_by=experts"});
  EXPECT_EQ(legal_chunks(recipe, Registry(), recipe.schedule.moe.settled()), (std::vector<int64_t>{2, 3, 6}));
}

TEST(LegalSchedules, ContainEveryTreatmentOfDuplicates) {
  const auto of = [](const MoeSchedule& s) { return s.duplicates; };
  EXPECT_EQ(distinct(legal(open_recipe({"parallel.tp=2"})), of).size(), 5u);
  // No two ranks hold the same token under sequence parallelism.
  EXPECT_EQ(distinct(legal(open_recipe({"parallel.tp=2", "parallel.sp=true"})), of).size(), 3u);
}

TEST(LegalSchedules, ContradictNoSetting) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  EXPECT_GT(legal(recipe).size(), 20u);
  for (const MoeSchedule& s : legal(recipe)) EXPECT_TRUE(contradictions(recipe, s).empty()) << to_string(s);
}

TEST(LegalSchedules, KeepTheSettingsOfTheRecipe) {
  for (const MoeSchedule& s : legal(open_recipe({"parallel.tp=2"}, {"schedule.moe.chunks=3"})))
    EXPECT_EQ(s.chunks, 3) << to_string(s);
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.chunk_by=tokens"});
  EXPECT_TRUE(recipe.schedule.moe.open()) << "schedule.moe.chunks is open by default";
  for (const MoeSchedule& s : legal(recipe)) EXPECT_EQ(s.chunk_by, ChunkBy::tokens);
}

TEST(LegalSchedules, VaryRowsOnlyIfRowsAreSent) {
  const auto rows = [](const Recipe& r) { return distinct(legal(r), [](const MoeSchedule& s) { return s.rows; }); };
  EXPECT_EQ(rows(small_recipe({"parallel.ep=2", "schedule.moe.rows=auto"})).size(), 2u);
  EXPECT_EQ(rows(small_recipe({"schedule.moe.rows=auto"})).size(), 1u);
  EXPECT_EQ(rows(small_recipe({"parallel.ep=2", "schedule.moe.rows=auto", "schedule.moe.memory_reuse=s4",
                               "schedule.moe.memory_limit=100000000"})),
            std::set<ep::RowOf>{ep::RowOf::slot})
      << "a memory limit requires rows of slots";
}

TEST(LegalSchedules, VaryGemmsOnlyWithAThreshold) {
  const auto gemms = [](const Recipe& r) { return distinct(legal(r), [](const MoeSchedule& s) { return s.gemms; }); };
  using moe::Gemms;
  EXPECT_EQ(gemms(small_recipe({"schedule.moe.gemms=auto"})), std::set<Gemms>{Gemms::grouped});
  const Recipe recipe = open_recipe({"parallel.ep=2", "schedule.moe.gemms=auto", "schedule.moe.dense_rows=4"});
  EXPECT_EQ(gemms(recipe), (std::set{Gemms::grouped, Gemms::by_load}));
  for (const MoeSchedule& s : legal(recipe))
    EXPECT_EQ(s.dense_rows.has_value(), s.gemms == Gemms::by_load) << to_string(s);
}

TEST(LegalSchedules, VaryTheEspExchangeOnlyWithOtherChoices) {
  EXPECT_FALSE(small_recipe({"parallel.tp=2"}).schedule.moe.open()) << "the default is auto";
  const auto esp_direct = [](const Recipe& r) {
    const auto all = legal(r);
    return std::ranges::count(all, std::optional(ep::EspExchange::direct), &MoeSchedule::esp_exchange);
  };
  EXPECT_EQ(esp_direct(small_recipe({"parallel.tp=2", "schedule.moe.duplicates=auto"})), 3)
      << "three values of duplicates divide the tokens among ranks";
  EXPECT_EQ(esp_direct(open_recipe({"parallel.ep=2"})), 0) << "no expert is split over ranks";
  EXPECT_EQ(esp_direct(open_recipe({"parallel.tp=2", "schedule.moe.esp_exchange=gather"})), 0);
}

TEST(LegalSchedules, VaryTheOrderOnlyOfChunkedPasses) {
  const auto all = legal(open_recipe({"parallel.ep=2", "schedule.moe.order=auto"}));
  for (const MoeSchedule& s : all) {
    if (!s.is_chunked()) {
      EXPECT_EQ(s.order, "alternating");
    }
  }
  EXPECT_EQ(all.size(), 1u + 3 * (4 + 1 + 1));
  EXPECT_FALSE(small_recipe({"parallel.ep=2", "schedule.moe.order=auto"}).schedule.moe.open())
      << "without chunks, there is no order to choose";
  // Restored chunks share two buffers, so a third chunk must not be in flight.
  const Recipe restored = small_recipe(
      {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.memory_reuse=s4", "schedule.moe.order=auto"});
  int returning_last = 0;
  for (const MoeSchedule& s : legal(restored)) {
    if (s.order == "returns_last") {
      ++returning_last;
      EXPECT_EQ(s.chunks, 2);
    }
  }
  EXPECT_GT(returning_last, 0);
}

TEST(LegalSchedules, VaryMemoryReuseExceptWhenChunkedByNodes) {
  const auto of = [](const MoeSchedule& s) { return s.memory_reuse; };
  const auto all = legal(open_recipe({"parallel.ep=2", "schedule.moe.memory_reuse=auto"}));
  EXPECT_EQ(distinct(all, of).size(), 5u);
  int by_nodes = 0;
  for (const MoeSchedule& s : all) {
    if (s.chunk_by == ChunkBy::nodes) {
      ++by_nodes;
      EXPECT_EQ(s.memory_reuse, moe::ReuseStrategy::none);
    }
  }
  EXPECT_GT(by_nodes, 0);
}

TEST(LegalSchedules, AreRefusedWithTheReasonWhenNoneExists) {
  // moe_choices.h refuses s1 to s4 with chunks of nodes, because all expert results of a token must be in one chunk.
  const std::string message = message_of(ExitCode::usage, [] {
    small_recipe(
        {"parallel.ep=2", "schedule.moe.chunk_by=nodes", "schedule.moe.chunks=auto", "schedule.moe.memory_reuse=s1"});
  });
  EXPECT_NE(message.find("schedule.moe.chunk_by must be none or tokens"), std::string::npos) << message;
}

}  // namespace
}  // namespace hexad::tests
