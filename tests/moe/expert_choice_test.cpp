// Choice of tokens by experts.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/moe/router/expert_choice.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/lab.h"
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

TEST(ExpertChoice, NothingIsChosenWithoutTokens) { EXPECT_EQ(choose({}, {2, 2, 4, 0.5}), Ids{}); }

// Two tp ranks hold two of the four tokens each. With `whole`, each rank has the scores of all tokens.
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

}  // namespace
}  // namespace hexad::tests
