// The layouts that a plan compares, and settings that differ between them.
#include "tools/plan/plan_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/plan/planned_recipe.h"
#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;

namespace {

TEST(PlanCandidates, AreTrainableRecipes) {
  const PlanCandidates all = candidates();
  ASSERT_GT(all.legal.size(), 100U);
  std::set<std::string> texts;
  std::vector<PlanCandidate> with_variants = all.legal;
  for (const PlanCandidate& c : all.legal)
    for (PlanCandidate& v : variants(c)) with_variants.push_back(std::move(v));
  EXPECT_EQ(std::ssize(with_variants), std::ssize(all.legal) + all.variants);
  for (const PlanCandidate& c : with_variants) {
    std::vector<std::string> overrides;
    for (const auto& [key, value] : c.settings()) overrides.push_back(key + "=" + value);
    const Recipe read = recipe_of(yaml, overrides, ranks);
    EXPECT_EQ(PlanCandidate{read}.to_string(ranks), c.to_string(ranks));
    EXPECT_TRUE(texts.insert(testing::PrintToString(overrides)).second) << c.to_string(ranks) << " occurs twice";
  }
}

TEST(PlanCandidates, CountEveryRefusalByItsKey) {
  const PlanCandidates all = candidates();
  int64_t refused = 0;
  for (const auto& [key, count] : all.refused) {
    EXPECT_NE(key, "") << count;
    refused += count;
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(all.tried, refused + std::ssize(all.legal) + all.variants);
}

TEST(PlanCandidates, HaveVariantsWithZero2AndRecomputedNorms) {
  const auto texts = [](const std::vector<std::string>& overrides) {
    const PlanCandidate layout{recipe_of(yaml, overrides, ranks)};
    std::vector<std::string> all;
    for (const PlanCandidate& v : variants(layout)) {
      all.push_back(v.to_string(ranks));
      EXPECT_EQ(without_variant(v).to_string(ranks), layout.to_string(ranks));
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts({"parallel.zero=1"}), (Texts{"dp 16, zero 1, micro 1, recompute norms", "dp 16, zero 2, micro 1",
                                               "dp 16, zero 2, micro 1, recompute norms"}));
  EXPECT_EQ(texts({"parallel.zero=1", "recompute=block"}), Texts{"dp 16, zero 2, micro 1, recompute block"});
  EXPECT_EQ(texts({"parallel.zero=3"}), Texts{"dp 16, zero 3, micro 1, recompute norms"});
  EXPECT_EQ(texts({"parallel.zero=3", "recompute=attention"}), Texts{});
}

TEST(PlanCandidates, CountCombinationsThatAreLeftOut) {
  std::map<std::string, int64_t> left_out = candidates().left_out;
  EXPECT_EQ(left_out.count("parallel.tp"), 0U) << "all sizes up to 8, the number of heads, are tried";
  EXPECT_EQ(left_out.count("parallel.pp"), 0U) << "all sizes up to 8, the number of layers, are tried";
  EXPECT_EQ(left_out["parallel.cp"], 4 + 3 + 2 + 1) << "divisors of 16 / tp except 1, with tp 1, 2, 4 and 8";
  EXPECT_EQ(left_out["schedule.pipeline.kind"], 4 * 3 + 3 * 3 + 2 * 1)
      << "gpipe, zb_v and dualpipe_v of 2 and 4 stages, gpipe of 8 stages, with each tp that leaves enough ranks";
  EXPECT_EQ(left_out["schedule.pipeline.virtual_stages"], 4) << "3 virtual stages of 2 stages, with 4 values of tp";
  EXPECT_GT(left_out["parallel.etp"], 0);
  EXPECT_GT(left_out["parallel.zero"], 0);
  EXPECT_GT(left_out["batch.micro"], 0) << "micro-batches of 16 or more sequences are not tried";
  EXPECT_EQ(
      plan_candidates(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, {.world = ranks, .ranks_per_domain = 4})
          .left_out["parallel.tp"],
      1);
}

TEST(PlanCandidates, HaveMicroBatchesOfAtMostTheLargestSize) {
  std::string longer = yaml;
  longer.replace(longer.find("context: 512"), 12, "context: 1048576");
  const PlanCandidates all = plan_candidates(config::parse(longer, "plan.yaml"), recipe_of(longer), {},
                                             {.world = ranks, .ranks_per_domain = 8});
  int64_t most = 0;
  for (const PlanCandidate& c : all.legal) most = std::max(most, c.recipe.batch.micro);
  EXPECT_EQ(most << 20, max_micro_batch_tokens);
}

TEST(PlanCandidates, SplitSequencesIfEachRankHas2048Tokens) {
  const auto max_cp = [](const std::string& context) {
    const std::vector<std::string> overrides{"model.context=" + context};
    int64_t most = 0;
    for (const PlanCandidate& c :
         plan_candidates(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides), {},
                         {.world = ranks, .ranks_per_domain = 8})
             .legal)
      most = std::max(most, c.recipe.parallel.cp);
    return most;
  };
  EXPECT_EQ(max_cp("2048"), 1);
  EXPECT_EQ(max_cp("4096"), 2);
  EXPECT_EQ(max_cp("16384"), 8);
}

TEST(PlanCandidates, IncludeTheMicroBatchOfTheRecipe) {
  const std::vector<std::string> overrides{"batch.micro=16"};
  const PlanCandidates all = plan_candidates(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides),
                                             {}, {.world = ranks, .ranks_per_domain = 8});
  std::set<int64_t> sizes;
  for (const PlanCandidate& c : all.legal) sizes.insert(c.recipe.batch.micro);
  EXPECT_EQ(sizes, (std::set<int64_t>{1, 2, 4, 8, 16}));
}

TEST(PlanCandidates, HaveEveryEpGroupOnOneNodeIfRowsGoThroughWindows) {
  const std::string windows = yaml + "schedule: {moe: {all_to_all: window}}\n";
  const auto max_ep = [&](int64_t ranks_per_node) {
    const PlanCandidates all =
        plan_candidates(config::parse(windows, "plan.yaml"), recipe_of(windows), {},
                        {.world = ranks, .ranks_per_domain = 8, .ranks_per_node = ranks_per_node});
    int64_t most = 0;
    for (const PlanCandidate& c : all.legal) most = std::max(most, c.recipe.parallel.ep);
    return most;
  };
  EXPECT_EQ(max_ep(0), 8);
  EXPECT_EQ(max_ep(8), 8);
  EXPECT_EQ(max_ep(4), 4);
}

TEST(LayoutRules, AreUnaffectedByEarlierRecipes) {
  const train::Extensions extensions;
  LayoutRules rules(config::parse(yaml, "plan.yaml"), extensions, ranks);
  const Recipe legal = recipe_of(yaml, {}, ranks);
  Recipe of_experts = legal, of_batch = legal;
  of_experts.parallel.ep = 3;
  of_batch.batch.micro = 3;
  EXPECT_EQ(rules.broken(of_experts), "model.moe.experts");
  EXPECT_FALSE(rules.broken(legal));
  EXPECT_EQ(rules.broken(of_batch), "batch.global");
  EXPECT_EQ(rules.broken(of_experts), "model.moe.experts");
}

// Returns the changed settings as "key: from -> to".
std::vector<std::string> changes(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::vector<std::string> lines;
  for (const ChangedSetting& s : changed_settings({recipe_of(yaml, from, ranks)}, {recipe_of(yaml, to, ranks)}, ranks))
    lines.push_back(base::cat(s.key, ": ", s.from, " -> ", s.to));
  return lines;
}

TEST(ChangedSettings, IncludeOnlySettingsWithAnEffect) {
  using Lines = std::vector<std::string>;
  const Lines no_effect{"parallel.cp_kind=ring", "parallel.cp_expansion=horizontal", "schedule.pipeline.kind=gpipe",
                        "schedule.pipeline.virtual_stages=4"};
  EXPECT_EQ(changes({"parallel.cp_kind=ulysses"}, no_effect), Lines{});
  EXPECT_EQ(changes({}, {"parallel.etp=1"}), Lines{}) << "etp is tp by default, which is 1";
  EXPECT_EQ(changes({"schedule.pipeline.virtual_stages=4", "parallel.pp=2"}, {"parallel.pp=2"}), Lines{})
      << "1f1b does not use virtual_stages";
  EXPECT_EQ(changes({}, {"parallel.cp=2", "parallel.cp_kind=ring"}),
            (Lines{"parallel.cp: 1 -> 2", "parallel.cp_kind: - -> ring"}));
  EXPECT_EQ(changes({"parallel.pp=2"}, {"parallel.pp=2", "schedule.pipeline.kind=gpipe"}),
            Lines{"schedule.pipeline.kind: 1f1b -> gpipe"});
}

TEST(ChangedSettings, CompareTheResolvedValuesOfAuto) {
  const std::vector<std::string> both{"parallel.cp=2", "parallel.ep=4"};
  std::vector<std::string> horizontal = both, vertical = both;
  horizontal.push_back("parallel.cp_expansion=horizontal"), vertical.push_back("parallel.cp_expansion=vertical");
  EXPECT_TRUE(changes(both, horizontal).empty()) << "auto is horizontal if cp < ep";
  EXPECT_EQ(changes(both, vertical), std::vector<std::string>{"parallel.cp_expansion: horizontal -> vertical"});
}

TEST(PlanCandidate, NamesTheExpansionIfItIsNotAuto) {
  const std::vector<std::string> sizes{"parallel.cp=2", "parallel.ep=4"};
  std::vector<std::string> vertical = sizes;
  vertical.push_back("parallel.cp_expansion=vertical");
  EXPECT_NE(PlanCandidate{recipe_of(yaml, vertical, ranks)}.to_string(ranks).find(", expansion vertical"),
            std::string::npos);
  EXPECT_EQ(PlanCandidate{recipe_of(yaml, sizes, ranks)}.to_string(ranks).find("expansion"), std::string::npos);
}

TEST(PlanCandidate, UsesTheSizeOfTpWithoutEtp) {
  const PlanCandidate c{recipe_of(yaml, {"parallel.tp=2", "parallel.sp=true"}, ranks)};
  EXPECT_NE(c.to_string(ranks).find("etp 2"), std::string::npos) << c.to_string(ranks);
}

NearestRanks nearest(int64_t world, int64_t most) {
  return nearest_legal_ranks(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {},
                             {.world = world, .ranks_per_domain = 8}, most);
}

TEST(NearestRanks, AreTheNextLegalNumbersBelowAndAbove) {
  const NearestRanks of_24 = nearest(24, 1024);  // 64 sequences are not divisible by 3
  EXPECT_EQ(of_24.below, 16);
  EXPECT_EQ(of_24.above, 32);
  EXPECT_EQ(nearest(24, 31).above, std::nullopt);
  EXPECT_EQ(nearest(16, 1024).below, 8) << "the given number is not one of its own neighbours";
}

TEST(NearestRanks, AreAbsentIfNoOtherNumberIsPossible) {
  EXPECT_EQ(nearest(1, 1).below, std::nullopt);
  EXPECT_EQ(nearest(1, 1).above, std::nullopt);
}

}  // namespace
}  // namespace hexad::tests
