#include "tools/plan/routing_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace hexad::tests {
namespace {

using namespace plan;

using Choice = device::MetaRun::Choice;

std::vector<int32_t> chosen(RoutingLoad load, int rank, int ranks, int64_t tokens, const Choice& choice) {
  std::vector<int32_t> ids(tokens * choice.top_k);
  choose_experts(load, rank, ranks)(ids, choice);
  return ids;
}

// Returns the rows of each expert for `tokens` tokens. Fails if a token chooses an expert twice, or an expert that
// does not exist.
std::vector<int64_t> rows(RoutingLoad load, int rank, int ranks, int64_t tokens, int64_t top_k, int64_t experts) {
  const std::vector<int32_t> ids = chosen(load, rank, ranks, tokens, {top_k, experts});
  std::vector<int64_t> counts(experts, 0);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = ids.begin() + t * top_k;
    EXPECT_EQ(std::set<int32_t>(first, first + top_k).size(), static_cast<size_t>(top_k)) << "token " << t;
    for (auto id = first; id != first + top_k; ++id) ++counts.at(*id);
  }
  return counts;
}

int64_t of_rank(const std::vector<int64_t>& counts, int rank, int ranks) {
  const auto local = static_cast<int64_t>(counts.size()) / ranks;
  return std::accumulate(counts.begin() + rank * local, counts.begin() + (rank + 1) * local, int64_t{0});
}

TEST(RoutingModel, EvenLoadGivesEveryExpertTheSameNumberOfRows) {
  for (const int64_t top_k : {1, 2, 6, 8})
    for (const int64_t n : rows(RoutingLoad::even, 1, 4, 512, top_k, 16)) EXPECT_EQ(n, 512 * top_k / 16) << top_k;
  for (const int64_t n : rows(RoutingLoad::even, 0, 1, 6, 3, 3)) EXPECT_EQ(n, 6) << "every expert gets every token";
}

// A token's 8 experts are drawn at random, so a token reaches fewer than 4 ranks on average.
TEST(RoutingModel, EvenLoadSpreadsATokensExpertsOverRanks) {
  const std::vector<int32_t> ids = chosen(RoutingLoad::even, 0, 4, 256, {8, 64});
  double reached = 0;
  for (size_t t = 0; t < 256; ++t) {
    std::set<int32_t> ranks;
    for (size_t k = 0; k < 8; ++k) ranks.insert(ids[t * 8 + k] / 16);
    reached += static_cast<double>(ranks.size()) / 256;
  }
  EXPECT_NEAR(reached, 4 * (1 - std::pow(0.75, 8)), 0.1);
}

TEST(RoutingModel, P99IsTheQuantileOfABrokenStick) {
  // For one of E experts, P(share > x) is (1 - x)^(E - 1).
  EXPECT_NEAR(share_of_rank(RoutingLoad::p99, 1, {1, 64}), 1 - std::pow(0.01, 1.0 / 63), 1e-9);
  // The share of two of four experts has the distribution Beta(2, 2): P(share <= x) is x^2 * (3 - 2 * x). With top-4,
  // at most half of a token's slots can be on a rank with two experts.
  const double x = share_of_rank(RoutingLoad::p99, 2, {2, 4});
  EXPECT_NEAR(x * x * (3 - 2 * x), 0.99, 1e-9);
  EXPECT_EQ(share_of_rank(RoutingLoad::p99, 2, {4, 4}), 0.5);
  EXPECT_EQ(share_of_rank(RoutingLoad::p99, 4, {2, 4}), 1) << "this rank has all experts";
  for (const int rank : {0, 3}) {
    const auto counts = rows(RoutingLoad::p99, rank, 4, 4096, 2, 32);
    const double share = share_of_rank(RoutingLoad::p99, 8, {2, 32});
    EXPECT_NEAR(static_cast<double>(of_rank(counts, rank, 4)) / 8192, share, 2e-4);
    const auto [least, most] = std::minmax_element(counts.begin() + rank * 8, counts.begin() + rank * 8 + 8);
    EXPECT_LE(*most - *least, 2) << "the rank's experts get nearly equal numbers of rows";
  }
}

TEST(RoutingModel, OneRankLoadFillsTheExpertsOfOneRank) {
  EXPECT_EQ(of_rank(rows(RoutingLoad::one_rank, 2, 4, 100, 2, 16), 2, 4), 200);
  // The rank has two experts, so it gets two slots of each token.
  EXPECT_EQ(of_rank(rows(RoutingLoad::one_rank, 0, 4, 100, 6, 8), 0, 4), 200);
  EXPECT_EQ(share_of_rank(RoutingLoad::one_rank, 2, {6, 8}), 2.0 / 6);
  EXPECT_EQ(share_of_rank(RoutingLoad::one_rank, 2, {2, 8}, 1.5), 1.5 / 4) << "the capacity limits the share";
  EXPECT_EQ(share_of_rank(RoutingLoad::p99, 2, {2, 8}, 0.5), 0.25) << "the share is at least that of an even load";
}

// There are 64 experts in groups of 8 on 8 ranks.
TEST(RoutingModel, TokenChoosesOnlyExpertsOfItsGroups) {
  for (const RoutingLoad::Kind load : {RoutingLoad::even, RoutingLoad::p99, RoutingLoad::one_rank})
    for (const int64_t top_groups : {1, 3}) {
      const Choice choice{.top_k = 6, .experts = 64, .groups = 8, .top_groups = top_groups};
      const std::vector<int32_t> ids = chosen(load, 5, 8, 512, choice);
      std::vector<int64_t> counts(64, 0);
      for (size_t t = 0; t < 512; ++t) {
        std::set<int32_t> groups, experts;
        for (size_t k = 0; k < 6; ++k) {
          experts.insert(ids[t * 6 + k]), groups.insert(ids[t * 6 + k] / 8);
          ++counts.at(ids[t * 6 + k]);
        }
        EXPECT_EQ(experts.size(), 6u) << "token " << t;
        EXPECT_LE(groups.size(), static_cast<size_t>(top_groups)) << "token " << t;
      }
      const double share = share_of_rank(load, 8, choice);
      EXPECT_NEAR(static_cast<double>(of_rank(counts, 5, 8)) / (512 * 6), share, 2e-3) << top_groups;
    }
}

TEST(RoutingModel, TokensGroupsBoundTheShareOfARank) {
  // Groups have two experts. A token chooses from two groups, or from one group in the last case.
  const Choice choice{.top_k = 4, .experts = 16, .groups = 8, .top_groups = 2};
  EXPECT_EQ(share_of_rank(RoutingLoad::one_rank, 4, choice), 1);
  EXPECT_EQ(share_of_rank(RoutingLoad::one_rank, 2, choice), 0.5);
  EXPECT_EQ(share_of_rank(RoutingLoad::one_rank, 8, {.top_k = 4, .experts = 16, .groups = 8}), 0.5);
}

TEST(RoutingModel, OnlyAnEvenLoadKeepsGivenChoices) {
  const Choice given{.top_k = 2, .experts = 8, .given = true};
  std::vector<int32_t> ids{6, 7};
  choose_experts(RoutingLoad::even, 0, 4)(ids, given);
  EXPECT_EQ(ids, (std::vector<int32_t>{6, 7}));
  choose_experts(RoutingLoad::one_rank, 0, 4)(ids, given);
  EXPECT_EQ(std::set<int32_t>(ids.begin(), ids.end()), (std::set<int32_t>{0, 1}));
}

TEST(RoutingModel, GivenSharesHoldInEachLayer) {
  const RoutingLoad load(ExpertShares{{0.4, 0.3, 0.2, 0.1}, {0.25, 0.25, 0.5, 0}});
  const auto choose = choose_experts(load, 0, 2);
  for (const int64_t layer : {0, 1, 0, -1}) {
    std::vector<int32_t> ids(2 * 1000);
    choose(ids, {.top_k = 2, .experts = 4, .layer = layer});
    std::vector<int64_t> counts(4, 0);
    for (size_t i = 0; i < ids.size(); i += 2) {
      EXPECT_NE(ids[i], ids[i + 1]) << "token " << i / 2;
      ++counts.at(ids[i]), ++counts.at(ids[i + 1]);
    }
    const std::vector<double>& shares = load.shares()[layer < 0 ? 0 : layer];
    for (size_t e = 0; e < 4; ++e)
      EXPECT_NEAR(static_cast<double>(counts[e]), 2000 * shares[e], 2) << "layer " << layer << ", expert " << e;
  }
}

TEST(RoutingModel, BusiestRankHasTheMostSlotsOverAllLayers) {
  const RoutingLoad load(ExpertShares{{0.4, 0.3, 0.2, 0.1}, {0, 0.1, 0.4, 0.5}});
  EXPECT_EQ(busiest_rank(load, 2), 1);
  EXPECT_EQ(busiest_rank(load, 4), 2);
  EXPECT_EQ(busiest_rank(RoutingLoad::p99, 4), 0);
}

TEST(Stragglers, AreOneRankInEveryLayer) {
  // The second of the two ranks has the most rows over all layers.
  const RoutingLoad load(ExpertShares{{0.4, 0.3, 0.2, 0.1}, {0, 0.1, 0.4, 0.5}, {0.25, 0.25, 0.25, 0.25}});
  EXPECT_EQ(with_stragglers(load, 2).shares(),
            (ExpertShares{{0.2, 0.1, 0.4, 0.3}, {0, 0.1, 0.4, 0.5}, {0.25, 0.25, 0.25, 0.25}}));
  EXPECT_TRUE(with_stragglers(RoutingLoad::p99, 2) == RoutingLoad::p99);
}

TEST(MeanLayer, HasTheMeanSharesInEveryLayer) {
  const RoutingLoad mean = mean_layer(RoutingLoad(ExpertShares{{1, 0, 0, 0}, {0.5, 0, 0, 0.5}}));
  EXPECT_EQ(mean.shares(), (ExpertShares{{0.75, 0, 0, 0.25}, {0.75, 0, 0, 0.25}}));
  EXPECT_TRUE(mean_layer(RoutingLoad::p99) == RoutingLoad::p99);
}

}  // namespace
}  // namespace hexad::tests
