// Walks from one layout to another: their order, combined changes, and ends.
#include "tools/plan/layout_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/plan/planned_recipe.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

PricedLayout layout_of(const std::vector<std::string>& overrides, LayoutPrice price) {
  return {.candidate = {recipe_of(yaml, overrides, ranks)}, .price = price};
}

// Returns a site on which each layout that the recipe's rules allow is legal, and takes one second.
WalkSite site_of(LayoutRules& rules) {
  return {.world = ranks,
          .is_legal = [&rules](const Recipe& r) { return !rules.broken(r); },
          .price = [](const Recipe&) { return LayoutPrice{.seconds = 1, .memory = 1}; }};
}

const train::Extensions extensions;

LayoutRules rules_of() { return {config::parse(yaml, "plan.yaml"), extensions, ranks}; }

std::vector<std::string> texts(const std::vector<WalkStep>& walk) {
  std::vector<std::string> all;
  for (const WalkStep& s : walk) all.push_back(s.changes_text());
  return all;
}

TEST(LayoutWalk, OrdersAllSettingsOfAPlan) {
  std::vector<std::string> walked, planned;
  for (const std::string_view key : walk_order()) walked.emplace_back(key);
  for (const auto& [key, value] : PlanCandidate{recipe_of(yaml)}.settings()) planned.push_back(key);
  std::ranges::sort(walked), std::ranges::sort(planned);
  EXPECT_EQ(walked, planned);
}

TEST(LayoutWalk, ChangesOneKeyAfterAnotherInOrder) {
  LayoutRules rules = rules_of();
  const std::vector<WalkStep> walk =
      walk_layouts(layout_of({"parallel.zero=1"}, {5, 10}),
                   layout_of({"parallel.zero=3", "batch.micro=2", "recompute=block", "parallel.tp=2",
                              "parallel.sp=true", "parallel.ep=2", "parallel.pp=2", "schedule.pipeline.kind=zb_h1"},
                             {7, 8}),
                   site_of(rules));
  const auto all = texts(walk);
  ASSERT_EQ(all.size(), 7U) << testing::PrintToString(all);
  EXPECT_EQ(all[0], "");
  EXPECT_TRUE(all[1].starts_with("parallel.tp: 1 -> 2, together with parallel.sp: - -> true")) << all[1];
  EXPECT_TRUE(all[1].ends_with("dp: 16 -> 8")) << all[1];
  EXPECT_TRUE(all[2].starts_with("parallel.ep: 1 -> 2")) << all[2];
  EXPECT_TRUE(all[3].starts_with("parallel.pp: 1 -> 2, together with schedule.pipeline.kind: - -> zb_h1")) << all[3];
  EXPECT_TRUE(all[3].ends_with("dp: 8 -> 4")) << all[3];
  EXPECT_EQ(all[4], "parallel.zero: 1 -> 3");
  EXPECT_EQ(all[5], "recompute: none -> block");
  EXPECT_EQ(all[6], "batch.micro: 1 -> 2");
}

TEST(LayoutWalk, BeginsAndEndsWithTheGivenLayoutsAndPrices) {
  LayoutRules rules = rules_of();
  const PricedLayout from = layout_of({"parallel.zero=1"}, {0.1, 10}),
                     to = layout_of({"parallel.zero=3", "batch.micro=4"}, {0.3, 30});
  const std::vector<WalkStep> walk = walk_layouts(from, to, site_of(rules));
  ASSERT_EQ(walk.size(), 3U);
  EXPECT_EQ(walk.front().layout.price.seconds, 0.1);
  EXPECT_EQ(walk.front().layout.price.memory, 10);
  EXPECT_EQ(walk.front().layout.candidate.settings(), from.candidate.settings());
  EXPECT_EQ(walk[1].layout.price.seconds, 1) << "the layout between the ends has the price of the site";
  EXPECT_EQ(walk.back().layout.price.seconds, 0.3);
  EXPECT_EQ(walk.back().layout.price.memory, 30);
  EXPECT_EQ(walk.back().layout.candidate.settings(), to.candidate.settings());
}

TEST(LayoutWalk, CombinesAChangeThatHasNoPriceWithTheNext) {
  LayoutRules rules = rules_of();
  WalkSite site = site_of(rules);
  // ZeRO 1 without recomputation is too large.
  site.price = [](const Recipe& r) -> std::optional<LayoutPrice> {
    if (r.parallel.zero == 1 && r.recompute == layers::Recompute::none) return {};
    return LayoutPrice{.seconds = 1, .memory = 1};
  };
  const auto all =
      texts(walk_layouts(layout_of({"parallel.zero=3"}, {1, 1}),
                         layout_of({"parallel.zero=1", "recompute=block", "batch.micro=2"}, {1, 1}), site));
  EXPECT_EQ(all, (std::vector<std::string>{"", "parallel.zero: 3 -> 1, together with recompute: none -> block",
                                           "batch.micro: 1 -> 2"}));
}

TEST(LayoutWalk, CombinesIllegalChangesUpToTheLast) {
  LayoutRules rules = rules_of();
  WalkSite site = site_of(rules);
  site.is_legal = [](const Recipe&) { return false; };
  const auto all = texts(walk_layouts(layout_of({"parallel.zero=1"}, {1, 1}),
                                      layout_of({"parallel.zero=3", "batch.micro=2"}, {2, 2}), site));
  EXPECT_EQ(all, (std::vector<std::string>{"", "parallel.zero: 1 -> 3, together with batch.micro: 1 -> 2"}));
}

TEST(LayoutWalk, HasOneStepIfNoSettingHasAnotherEffect) {
  LayoutRules rules = rules_of();
  // The kind of pipeline has no effect with one stage. An open choice (auto) has the value that applies until the
  // program chooses.
  const std::vector<WalkStep> walk =
      walk_layouts(layout_of({"schedule.pipeline.kind=1f1b", "schedule.moe.overlap=auto"}, {1, 1}),
                   layout_of({"schedule.pipeline.kind=zb_h1"}, {1, 1}), site_of(rules));
  EXPECT_EQ(walk.size(), 1U);
}

}  // namespace
}  // namespace hexad::tests
