// Choice of the tokens that are dropped if an expert is over capacity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/moe/router/capacity.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using kernels::DropRule;

// Scores of six tokens for two experts. In the tests with all_to_one, each token has one slot, which chooses expert 0.
const std::vector<double> scores{0.3, 0, 0.9, 0, 0.5, 0, 0.9, 0, 0.1, 0, 0.5, 0};
const std::vector<int32_t> all_to_one{0, 0, 0, 0, 0, 0};

struct Dropped {
  std::vector<int32_t> ids;
  int64_t count;
};
Dropped drop(const std::vector<int32_t>& ids, int64_t top_k, int64_t scope, double factor, DropRule rule,
             const std::vector<double>& s = scores, int64_t experts = 2) {
  Lab lab;
  const int64_t tokens = static_cast<int64_t>(ids.size()) / top_k;
  const Tensor t = lab.values(ids, {tokens, top_k});
  kernels::kernels(t.device())
      .capacity.drop(lab.stream(), t, lab.values(s, {tokens, experts}), {}, {scope, factor, rule});
  const std::vector<int32_t> left = t.to_vector<int32_t>();
  return {left, std::ranges::count(left, -1) - std::ranges::count(ids, -1)};
}

TEST(Capacity, KeepsTheMostProbableAndTheEarlierAmongEquals) {
  const auto [ids, count] = drop(all_to_one, 1, 6, 1.0, DropRule::probability);  // 3 of 6 are kept
  EXPECT_EQ(ids, (std::vector<int32_t>{-1, 0, 0, 0, -1, -1}));
  EXPECT_EQ(count, 3);
}

TEST(Capacity, KeepsTheFirstTokens) {
  const auto [ids, count] = drop(all_to_one, 1, 6, 1.0, DropRule::position);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 0, 0, -1, -1, -1}));
  EXPECT_EQ(count, 3);
}

TEST(Capacity, IsCountedForEachScope) {
  const auto [ids, count] = drop(all_to_one, 1, 2, 1.0, DropRule::probability);  // 1 of every 2 is kept
  EXPECT_EQ(ids, (std::vector<int32_t>{-1, 0, -1, 0, -1, 0}));
  EXPECT_EQ(count, 3);
}

TEST(Capacity, LastScopeMayBeShorter) {
  const auto [ids, count] = drop(all_to_one, 1, 4, 1.0, DropRule::position);  // 2 of 4 are kept, then 1 of 2
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 0, -1, -1, 0, -1}));
  EXPECT_EQ(count, 3);
}

TEST(Capacity, IsRoundedUp) {
  const auto [ids, count] = drop(all_to_one, 1, 6, 0.4, DropRule::position);  // 1.2 is rounded up to 2
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 0, -1, -1, -1, -1}));
  EXPECT_EQ(count, 4);
}

TEST(Capacity, IsAtMostTheNumberOfTokens) {
  for (double factor : {1e18, 1e300}) {  // the second factor exceeds every 64-bit integer
    const auto [ids, count] = drop(all_to_one, 1, 6, factor, DropRule::probability);
    EXPECT_EQ(ids, all_to_one);
    EXPECT_EQ(count, 0);
  }
}

TEST(Capacity, PaddingTakesNoPartInTheMean) {
  // Two of six tokens are valid, so the capacity is one.
  const auto [ids, count] = drop({-1, 0, -1, -1, 0, -1}, 1, 6, 1.0, DropRule::position);
  EXPECT_EQ(ids, (std::vector<int32_t>{-1, 0, -1, -1, -1, -1}));
  EXPECT_EQ(count, 1);
}

TEST(Capacity, CountsSlotsOfOneTokenSeparately) {
  // Each token has two slots. Both experts get three tokens and may keep ceil(0.5 * 3) = 2.
  const auto [ids, count] = drop({0, 1, 0, 1, 0, 1}, 2, 3, 0.5, DropRule::probability, {0.5, 0.1, 0.4, 0.3, 0.3, 0.2});
  EXPECT_EQ(ids, (std::vector<int32_t>{0, -1, 0, 1, -1, 1}));
  EXPECT_EQ(count, 2);
}

TEST(Capacity, NanIsDroppedFirst) {
  const double nan = std::nan("");
  const auto [ids, count] =
      drop(all_to_one, 1, 6, 1.0, DropRule::probability, {nan, 0, 0.1, 0, nan, 0, 0.2, 0, 0.3, 0, nan, 0});
  EXPECT_EQ(ids, (std::vector<int32_t>{-1, 0, -1, 0, 0, -1}));
  EXPECT_EQ(count, 3);
}

TEST(Capacity, AcceptsRowsInAnyOrder) {
  Lab lab;
  // Tokens 0 .. 3 are rows 2, 3, 0, 1. The first two tokens are kept.
  const Tensor ids = lab.values(std::vector<int32_t>{0, 0, 0, 0}, {4, 1});
  const Tensor s = lab.values(std::vector<double>(8, 0.5), {4, 2});
  kernels::kernels(ids.device())
      .capacity.drop(lab.stream(), ids, s, lab.values(std::vector<int64_t>{2, 3, 0, 1}, {4}),
                     {4, 1.0, DropRule::probability});
  EXPECT_EQ(ids.to_vector<int32_t>(), (std::vector<int32_t>{-1, -1, 0, 0}));
}

// Two tp ranks hold three of the six tokens each. Each rank has the ids of all tokens if `whole` is true.
TEST(Capacity, IsCountedOverTheTokensOfAllRanks) {
  for (bool whole : {false, true})
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Lab lab;
      layers::MicroBatch batch;
      batch.sequences = 1, batch.length = 6;
      const int64_t begin = 3 * world.rank();
      const Tensor all = lab.values(all_to_one, {6, 1}), ids = whole ? all : all.slice(0, begin, begin + 3);
      const Tensor own = lab.values(scores, {6, 2}).slice(0, begin, begin + 3);
      moe::drop_over_capacity(ids, whole ? begin : 0, own, batch, world, {6, 1.0, DropRule::probability}, lab.stream());
      std::vector<int32_t> wanted{-1, 0, 0, 0, -1, -1};
      if (!whole) wanted = {wanted.begin() + begin, wanted.begin() + begin + 3};
      EXPECT_EQ(ids.to_vector<int32_t>(), wanted);
    });
}

TEST(Capacity, UnknownExpertEndsTheJobIfTheHostSeesIt) {
  const auto decide = [] {
    comm::with_ranks(2, [](const comm::ProcessGroup& world) {
      Lab lab;
      layers::MicroBatch batch;
      batch.sequences = 1, batch.length = 2;
      const Tensor ids = lab.values(std::vector<int32_t>{world.rank() == 1 ? 9 : 0}, {1, 1});
      const Tensor own = lab.values(std::vector<double>{0.5, 0.5}, {1, 2});
      moe::drop_over_capacity(ids, 0, own, batch, world, {2, 1.0, DropRule::position}, lab.stream());
      EXPECT_EQ(ids.to_vector<int32_t>().front(), world.rank() == 1 ? 9 : 0) << "ids must not change";
    });
  };
  if (test_device() != device::DeviceKind::cpu) return decide();
  EXPECT_EQ(
      message_of(ExitCode::communication, decide),
      "routing: rank 1 of group world sent expert 9 for slot 0 of its row 0; expected 0 .. 1, or -1 for a dropped "
      "slot");
}

TEST(Capacity, UnknownExpertIdsRemainAndAreNotCounted) {
  const auto [ids, count] = drop({7, 0, 0, -5, 0, 0}, 1, 6, 1.0, DropRule::position);  // 2 of 4 are kept
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 0, 0, -5, -1, -1}));
  EXPECT_EQ(count, 2);
}

TEST(Capacity, DropsNothingWithoutTokens) { EXPECT_EQ(drop({}, 2, 4, 1.0, DropRule::probability, {}).count, 0); }

}  // namespace
}  // namespace hexad::tests
