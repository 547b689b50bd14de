// Hot experts: their choice, their numbers on each rank, and routing plans that keep their rows on the ranks of the
// tokens.
#include "parallel/ep/hot_experts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/routing_plan.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

using ep::HotExperts;
using List = std::vector<int64_t>;

TEST(HotExperts, HaveAMinimumLoadRelativeToTheMeanLoad) {
  const List loads{1, 9, 0, 2, 4, 0, 0, 0};  // mean 2
  EXPECT_EQ(ep::hottest(loads, 1, {2}).list(), (List{1, 4}));
  EXPECT_EQ(ep::hottest(loads, 1, {2.01}).list(), (List{1}));
  EXPECT_EQ(ep::hottest(loads, 1, {1}).list(), (List{1, 3, 4}));
  EXPECT_FALSE(ep::hottest(loads, 1, {5}).any());
  EXPECT_FALSE(ep::hottest(List(8, 0), 1, {1}).any());
}

TEST(HotExperts, HaveAMinimumNumberOfRows) {
  const List loads{1, 9, 0, 2, 4, 0, 0, 0};
  EXPECT_EQ(ep::hottest(loads, 1, {.least_load = 2, .least_rows = 4}).list(), (List{1, 4}));
  EXPECT_EQ(ep::hottest(loads, 1, {.least_load = 2, .least_rows = 5}).list(), (List{1}));
  EXPECT_FALSE(ep::hottest(loads, 1, {.least_load = 2, .least_rows = 10}).any());
}

TEST(HotExperts, HaveTheHighestLoadsAndDoNotOutnumberTheExpertsOfARank) {
  const List loads{5, 9, 0, 7, 9, 0, 5, 7};
  EXPECT_EQ(ep::hottest(loads, 4, {1}).list(), (List{1, 4}));
  EXPECT_EQ(ep::hottest(loads, 2, {1}).list(), (List{1, 3, 4, 7}));
  EXPECT_EQ(ep::hottest(List{3, 3, 3, 3}, 2, {1}).list(), (List{0, 1}))
      << "among experts of equal load, those with the lowest ids are hot";
}

TEST(HotExperts, NumbersCountOwnExpertsThenShadows) {
  const HotExperts hot({5, 0}, 6, 3);
  EXPECT_EQ(hot.list(), (List{0, 5}));
  EXPECT_EQ(hot.own(), 2);
  EXPECT_EQ(hot.numbers(6), 12);
  EXPECT_EQ(hot.number(1, 2), 1);
  EXPECT_EQ(hot.number(3, 0), 5);
  EXPECT_EQ(hot.number(0, 0), 2);
  EXPECT_EQ(hot.number(0, 2), 10);
  EXPECT_EQ(hot.number(5, 1), 7);
  EXPECT_EQ(HotExperts().number(3, 1), 3);
  EXPECT_EQ(HotExperts().numbers(6), 6);
}

TEST(HotExperts, OwnersAreTheRanksOfHotExperts) {
  std::vector<List> owners;
  HotExperts({0, 1, 5}, 6, 3).for_each_owner([&](int rank, int64_t begin, int64_t end) {
    owners.push_back({rank, begin, end});
  });
  EXPECT_EQ(owners, (std::vector<List>{{0, 0, 2}, {2, 2, 3}}));
}

TEST(HotExperts, CountsAreConvertedBothWays) {
  const HotExperts hot({2}, 4, 2);
  const List by_expert{3, 1, 4, 1};
  EXPECT_EQ(hot.by_number(by_expert, 0), (List{3, 1, 4, 0, 1, 0}));
  EXPECT_EQ(hot.by_number(by_expert, 1), (List{3, 1, 0, 0, 1, 4}));
  for (const int64_t rank : {0, 1}) {
    List two = hot.by_number(by_expert, rank);
    const List second = two;
    two.insert(two.end(), second.begin(), second.end());
    EXPECT_EQ(hot.by_expert(two), (List{3, 1, 4, 1, 3, 1, 4, 1}));
  }
  EXPECT_EQ(HotExperts().by_number(by_expert, 1), by_expert);
  EXPECT_EQ(HotExperts().by_expert(by_expert), by_expert);
}

TEST(HotExperts, IllegalListsAreRefused) {
  EXPECT_THROW(HotExperts({4}, 4, 2), std::logic_error);
  EXPECT_THROW(HotExperts({1, 1}, 4, 2), std::logic_error);
  EXPECT_THROW(HotExperts({1}, 5, 2), std::logic_error);
}

// Rank r has three slots for expert 0, one for expert r + 1 and two dropped slots. There are 8 experts on 4 ranks.
Tensor ids_of(Lab& lab, int rank) { return lab.values(std::vector<int32_t>{0, rank + 1, -1, 0, 0, -1}, {3, 2}); }

TEST(HotExperts, AreTheSameOnAllRanks) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const Tensor ids = to_host(ids_of(lab, world.rank()));
    EXPECT_EQ(ep::agree_on_hot_experts(ids, 8, 4, {2}, world).list(), (List{0}));
    EXPECT_FALSE(ep::agree_on_hot_experts(ids, 8, 4, {7}, world).any());
  });
}

TEST(HotExperts, UnknownExpertsAreRefused) {
  const comm::SelfGroup self;
  Lab lab;
  EXPECT_THROW(ep::agree_on_hot_experts(to_host(lab.values(std::vector<int32_t>{8}, {1, 1})), 8, 1, {2}, self),
               std::logic_error);
}

TEST(HotExperts, KeepTheirRowsOnTheRanksOfTheTokens) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    const int rank = world.rank();
    const HotExperts hot({0}, 8, 4);
    const Tensor numbers = ep::renumbered(ids_of(lab, rank), hot, std::span(&rank, 1), lab.stream());
    EXPECT_EQ(numbers.to_vector<int32_t>()[0], 3 * rank + 2);
    EXPECT_EQ(numbers.to_vector<int32_t>()[2], -1);
    const ep::SlotOrder order = ep::order_slots(numbers, {hot.numbers(8), 4}, rank, lab.stream());
    const ep::RoutingPlan plan = ep::make_routing_plan(order, {&world, &self, &world}, {.hot = hot}, lab.stream());
    const ep::ChunkCounts& chunk = plan.counts.chunks[0];
    // Rank r sends three rows to itself, and one to the rank of expert r + 1.
    List send(4, 0);
    send[rank] += 3, send[(rank + 1) / 2] += 1;
    EXPECT_EQ(chunk.splits.send, send);
    const List others_send{1, 2, 1, 0};  // by rank: number of rows for its own experts, without hot experts
    EXPECT_EQ(chunk.rows_computed(), 3 + others_send[rank]);
    EXPECT_EQ(chunk.own_offsets().size(), 3u);
    EXPECT_EQ(chunk.own_offsets().back(), others_send[rank]);
    EXPECT_EQ(chunk.shadow_offsets, (List{0, 3}));
    EXPECT_EQ(plan.counts.hot, hot);
  });
}

TEST(HotExperts, NeedRowsOfSlots) {
  Lab lab;
  const comm::SelfGroup self;
  ep::RoutingOptions options{.row_of = ep::RowOf::token, .hot = HotExperts({0}, 2, 1)};
  const ep::SlotOrder order =
      ep::order_slots(lab.values(std::vector<int32_t>{0, 1}, {1, 2}), {3, 1, {}, ep::RowOf::token}, 0, lab.stream());
  EXPECT_THROW(ep::make_routing_plan(order, {&self, &self, &self}, options, lab.stream()), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
