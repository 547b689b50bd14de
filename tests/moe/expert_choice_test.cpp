// Choice of tokens by experts.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/moe/router/expert_choice.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/moe_lab.h"
#include "tests/moe/naive_moe.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using Ids = std::vector<int32_t>;

// Scores of four tokens for two experts.
const std::vector<double> scores{0.9, 0.1, 0.5, 0.5, 0.5, 0.5, 0.1, 0.9};

struct Choice {
  int64_t experts, top_k, scope;
  double factor;
};

layers::MicroBatch batch_of(int64_t sequences, int64_t length) {
  layers::MicroBatch batch;
  batch.sequences = sequences, batch.length = length;
  return batch;
}

Ids choose(const std::vector<double>& s, const Choice& c, const layers::MicroBatch& batch) {
  Lab lab;
  const comm::SelfGroup alone;
  const auto tokens = static_cast<int64_t>(s.size()) / c.experts;
  return moe::choose_tokens(lab.values(s, {tokens, c.experts}), 0, tokens, c.top_k, batch, alone, {c.scope, c.factor},
                            lab.stream())
      .to_vector<int32_t>();
}
Ids choose(const std::vector<double>& s, const Choice& c) {
  return choose(s, c, batch_of(1, static_cast<int64_t>(s.size()) / c.experts));
}

TEST(ExpertChoice, ExpertsChooseTheMostProbableAndTheEarlierAmongEquals) {
  // Each expert chooses 2 of the 4 tokens. No expert chooses token 2.
  EXPECT_EQ(choose(scores, {2, 2, 4, 0.5}), (Ids{0, -1, 0, 1, -1, -1, 1, -1}));
}

TEST(ExpertChoice, TokensKeepTheirMostProbableExperts) {
  // Each of the three experts chooses one token, which is token 0.
  EXPECT_EQ(choose({0.2, 0.5, 0.3, 0.1, 0.4, 0.2}, {3, 1, 2, 1.5}), (Ids{1, -1}));
  EXPECT_EQ(choose({0.2, 0.5, 0.3, 0.1, 0.4, 0.2}, {3, 2, 2, 0.75}), (Ids{1, 2, -1, -1}));
  EXPECT_EQ(choose({0.4, 0.4, 0.4, 0.1, 0.1, 0.1}, {3, 2, 2, 0.75}), (Ids{0, 1, -1, -1}))
      << "the lower index wins a tie";
}

TEST(ExpertChoice, EveryExpertChoosesInEveryScope) {
  EXPECT_EQ(choose(scores, {2, 2, 2, 0.5}), (Ids{0, -1, 1, -1, 0, -1, 1, -1}));
  EXPECT_EQ(choose(scores, {2, 2, 3, 0.3}), (Ids{0, -1, 1, -1, -1, -1, 1, 0})) << "the last scope may be shorter";
}

TEST(ExpertChoice, ExpertsChooseAtMostAllTokens) {
  for (const double factor : {1e18, 1e300}) EXPECT_EQ(choose(scores, {2, 2, 4, factor}), (Ids{0, 1, 0, 1, 0, 1, 1, 0}));
}

TEST(ExpertChoice, NanIsChosenLast) {
  const double nan = std::nan("");
  EXPECT_EQ(choose({nan, nan, 0.1, nan, nan, 0.2, 0.3, 0.1}, {2, 2, 4, 0.5}), (Ids{-1, -1, 0, -1, 1, -1, 0, 1}));
}

TEST(ExpertChoice, PaddingIsNotChosen) {
  Lab lab;
  layers::MicroBatch batch = batch_of(2, 2);
  batch.valid = lab.values<uint8_t>({1, 1, 0, 0}, {4});
  batch.valid_tokens = {2, 0};
  // Each expert chooses one of the two valid tokens.
  EXPECT_EQ(choose({0.6, 0.4, 0.5, 0.5, 1, 1, 1, 1}, {2, 2, 4, 0.5}, batch), (Ids{0, -1, 1, -1, -1, -1, -1, -1}));
}

TEST(ExpertChoice, AllExpertsChooseAnOnlyToken) {
  EXPECT_EQ(choose({0.2, 0.5, 0.3}, {3, 3, 1, 0.1}), (Ids{1, 2, 0}));
  EXPECT_EQ(choose({0.2, 0.5, 0.3}, {3, 1, 1, 1}), (Ids{1}))
      << "the token keeps only top_k of the experts that choose it";
}

// The number of choices is rounded up, so every expert chooses at least one token. A token may have no expert.
TEST(ExpertChoice, EveryExpertChoosesATokenHoweverSmallTheFactor) {
  EXPECT_EQ(choose(scores, {2, 2, 4, 1e-9}), (Ids{0, -1, -1, -1, -1, -1, 1, -1}));
}

// Five tokens, three experts and two slots: each expert chooses ceil(0.7 * 2 * 5 / 3) = 3 tokens.
TEST(ExpertChoice, NumbersNeedNotDivideEachOther) {
  const std::vector<double> odd{0.5, 0.3, 0.2, 0.2, 0.2, 0.6, 0.1, 0.8, 0.1, 0.6, 0.1, 0.3, 0.3, 0.4, 0.3};
  EXPECT_EQ(choose(odd, {3, 2, 5, 0.7}), (Ids{0, 1, 2, -1, 1, -1, 0, 2, 1, 0}));
}

TEST(ExpertChoice, NothingIsChosenWithoutTokens) { EXPECT_EQ(choose({}, {2, 2, 4, 0.5}), Ids{}); }

// Two tp ranks hold two of the four tokens each. Each rank has the scores of all tokens if `whole` is true.
TEST(ExpertChoice, IsMadeAmongTheTokensOfAllTensorParallelRanks) {
  for (const bool whole : {false, true})
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Lab lab;
      const int64_t begin = 2 * world.rank();
      const Tensor all = lab.values(scores, {4, 2}), held = whole ? all : all.slice(0, begin, begin + 2);
      const int64_t own = whole ? begin : 0;
      const Tensor ids = moe::choose_tokens(held, own, own + 2, 2, batch_of(1, 4), world, {4, 0.5}, lab.stream());
      Ids wanted{0, -1, 0, 1, -1, -1, 1, -1};
      if (!whole) wanted = world.rank() == 0 ? Ids{0, -1, 0, 1} : Ids{-1, -1, 1, -1};
      EXPECT_EQ(ids.to_vector<int32_t>(), wanted);
    });
}

// Two cp ranks hold tokens 0 and 3, and tokens 1 and 2.
TEST(ExpertChoice, IsMadeAmongTheTokensOfAllContextParallelRanks) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Lab lab;
    layers::MicroBatch batch = batch_of(1, 4);
    batch.context_ranks = 2, batch.context_rank = world.rank();
    const bool first = world.rank() == 0;
    const std::vector<double> own =
        first ? std::vector<double>{0.9, 0.1, 0.1, 0.9} : std::vector<double>{0.5, 0.5, 0.5, 0.5};
    const Tensor ids = moe::choose_tokens(lab.values(own, {2, 2}), 0, 2, 2, batch, world, {4, 0.5}, lab.stream());
    EXPECT_EQ(ids.to_vector<int32_t>(), first ? (Ids{0, -1, 1, -1}) : (Ids{0, 1, -1, -1}));
  });
}

// All scores are equal, so each expert chooses the first five tokens: all four of rank 0, and one of rank 1.
TEST(ExpertChoice, EarlierTokensOfOtherRanksWinTies) {
  const std::vector<double> equal(8, 0.25);
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Lab lab;
    const Tensor held = lab.values(equal, {4, 2});
    const Tensor ids = moe::choose_tokens(held, 0, 4, 2, batch_of(1, 8), world, {8, 0.625}, lab.stream());
    const Ids first{0, 1, 0, 1, 0, 1, 0, 1}, second{0, 1, -1, -1, -1, -1, -1, -1};
    EXPECT_EQ(ids.to_vector<int32_t>(), world.rank() == 0 ? first : second);
  });
}

TEST(ExpertChoice, GroupOfOneRankChoosesAsARankAlone) {
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    Lab lab;
    const Tensor ids =
        moe::choose_tokens(lab.values(scores, {4, 2}), 0, 4, 2, batch_of(1, 4), world, {4, 0.5}, lab.stream());
    EXPECT_EQ(ids.to_vector<int32_t>(), choose(scores, {2, 2, 4, 0.5}));
  });
}

// Returns overrides that let experts choose tokens.
std::vector<std::string> choosing(std::initializer_list<const char*> more) {
  std::vector<std::string> all{"model.kind=encoder", "model.moe.router=expert_choice",
                               "model.moe.aux_loss.coefficient=0"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Observed {
  std::vector<int64_t> counts;
  int64_t assignments, dropped;
};

// Tokens without features have equal scores for all four experts. Therefore, every expert chooses the first tokens of a
// scope, and a token prefers the experts with lower indices.
Observed observed_without_features(std::initializer_list<const char*> more, int64_t valid) {
  MoeLab lab(choosing(more));
  const std::vector<double> zeros(12 * lab.config.hidden, 0.0);
  forward(lab, lab.values(zeros, {12, lab.config.hidden}), lab.batch(3, 4, valid));
  const RouterStatistics& observed = lab.observed();
  return {observed.counts, observed.assignments, observed.dropped};
}

TEST(ExpertChoice, ChoicesBeyondTheSlotsOfATokenCountAsDropped) {
  // Each expert chooses 3 of 12 tokens, and each of these tokens keeps one of four experts.
  const Observed one = observed_without_features({"model.moe.top_k=1", "model.moe.capacity_factor=1"}, -1);
  EXPECT_EQ(one.counts, (std::vector<int64_t>{3, 0, 0, 0}));
  EXPECT_EQ(one.assignments, 12);
  EXPECT_EQ(one.dropped, 9);
  const Observed all = observed_without_features({"model.moe.top_k=4", "model.moe.capacity_factor=0.25"}, -1);
  EXPECT_EQ(all.counts, (std::vector<int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(all.assignments, 12);
  EXPECT_EQ(all.dropped, 0);
}

TEST(ExpertChoice, ChoicesAreCountedByScopeWithoutPadding) {
  // Each expert chooses 2 of 6 tokens.
  const Observed together = observed_without_features({"model.moe.top_k=1", "model.moe.capacity_factor=1"}, 6);
  EXPECT_EQ(together.counts, (std::vector<int64_t>{2, 0, 0, 0}));
  EXPECT_EQ(together.assignments, 8);
  EXPECT_EQ(together.dropped, 6);
  // Each expert chooses 1 of 4 tokens, 1 of 2, and none of the sequence without tokens.
  const Observed apart = observed_without_features(
      {"model.moe.top_k=1", "model.moe.capacity_factor=0.25", "model.moe.capacity_scope=sequence"}, 6);
  EXPECT_EQ(apart.counts, (std::vector<int64_t>{2, 0, 0, 0}));
  EXPECT_EQ(apart.assignments, 8);
  EXPECT_EQ(apart.dropped, 6);
}

TEST(ExpertChoice, StatisticsRestart) {
  MoeLab lab(choosing({"model.moe.top_k=2", "model.moe.capacity_factor=1"}));
  const MicroBatch batch = lab.batch(3, 4);
  const Tensor x = lab.randn({12, lab.config.hidden});
  for (int pass = 0; pass < 2; ++pass) forward(lab, x, batch);
  EXPECT_EQ(lab.observed().assignments, 2 * 4 * 6) << "each of four experts chooses 6 of 12 tokens";
  lab.statistics.reset(lab.stream());
  EXPECT_EQ(lab.observed().assignments, 0);
  EXPECT_EQ(lab.observed().dropped, 0);
}

}  // namespace
}  // namespace hexad::tests
