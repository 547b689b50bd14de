// Who sends which rows where, and that the rows get there and back.
#include <gtest/gtest.h>

#include <set>

#include "framework/base/philox.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/exchange.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {
namespace {

using ep::RoutingPlan;

Tensor ids_of(Lab& lab, const std::vector<int32_t>& ids, int64_t top_k) {
  return Tensor::from<int32_t>(ids, {static_cast<int64_t>(ids.size()) / top_k, top_k}, lab.context);
}

// `tokens` random choices of distinct experts, one in five dropped; other ones on every rank.
Tensor random_ids(Lab& lab, int rank, int64_t tokens, int64_t top_k, int64_t experts) {
  const Philox random(1, Purpose::route, cat("rank ", rank));
  std::vector<int32_t> ids;
  uint64_t n = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    std::set<int32_t> chosen;
    while (static_cast<int64_t>(chosen.size()) < top_k)
      chosen.insert(static_cast<int32_t>(random.below(n++, static_cast<uint64_t>(experts))));
    for (int32_t e : chosen) ids.push_back(random.below(n++, 5) == 0 ? -1 : e);
  }
  return ids_of(lab, ids, top_k);
}

TEST(RoutingPlan, SortsRowsByExpertThenToken) {
  Lab lab;
  const comm::SelfGroup self;
  // Token 0 chose experts 2 and 0, token 1 lost one slot, token 2 chose 0 and 2.
  const RoutingPlan plan = ep::make_routing_plan(ids_of(lab, {2, 0, -1, 1, 0, 2}, 2), 3, self, self);
  EXPECT_EQ(plan.tokens.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1, 0, 2}));
  EXPECT_EQ(plan.rows.to_vector<int64_t>(), (std::vector<int64_t>{3, 0, -1, 2, 1, 4}));
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(plan.splits.send, (std::vector<int64_t>{5}));
  EXPECT_EQ(plan.splits.receive, (std::vector<int64_t>{5}));
}

TEST(RoutingPlan, OfNoTokenOrOnlyDroppedSlotsIsEmpty) {
  Lab lab;
  const comm::SelfGroup self;
  for (const auto& ids : {std::vector<int32_t>{}, std::vector<int32_t>{-1, -1}}) {
    const RoutingPlan plan = ep::make_routing_plan(ids_of(lab, ids, 2), 3, self, self);
    EXPECT_EQ(plan.rows_to_send(), 0);
    EXPECT_EQ(plan.rows_received(), 0);
    EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 0, 0}));
  }
}

TEST(RoutingPlan, R8_RefusesExpertsOutOfRange) {
  Lab lab;
  const comm::SelfGroup self;
  EXPECT_THROW(ep::make_routing_plan(ids_of(lab, {0, 3}, 2), 3, self, self), std::logic_error);
  EXPECT_THROW(ep::make_routing_plan(ids_of(lab, {0, -2}, 2), 3, self, self), std::logic_error);
}

TEST(RoutingPlan, RefusesExpertsThatDoNotSpreadEvenly) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    EXPECT_THROW(ep::make_routing_plan(ids_of(lab, {0}, 1), 3, world, comm::SelfGroup()), std::logic_error);
  });
}

TEST(RoutingPlan, SplitsOfAllRanksFitTogether) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const RoutingPlan plan = ep::make_routing_plan(random_ids(lab, world.rank(), 9, 2, 8), 8, world, comm::SelfGroup());
    const auto sent = world.all_gather_values(plan.splits.send, lab.context);
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(plan.splits.receive[static_cast<size_t>(r)], sent[static_cast<size_t>(4 * r + world.rank())]);
    EXPECT_EQ(plan.rows_received(), plan.offsets.back());
  });
}

// Rows that name their expert, arriving grouped by expert and then by source rank and token.
TEST(Exchange, BringsEveryRowToItsExpertAndBackToItsSlot) {
  constexpr int64_t tokens = 9, top_k = 2, experts = 8;
  for (int ranks : {1, 2, 4})
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      Lab lab;
      const int64_t count = world.rank() == 1 ? 0 : tokens;  // F25: one rank has no token and joins
      const Tensor ids = random_ids(lab, world.rank(), count, top_k, experts);
      const RoutingPlan plan = ep::make_routing_plan(ids, experts, world, comm::SelfGroup());
      const Tensor rows = Tensor::empty({plan.rows_to_send(), 3}, Dtype::f64, lab.context);
      for (int64_t i = 0; i < ids.numel(); ++i) {
        const int64_t row = plan.rows.data<int64_t>()[i];
        if (row < 0) continue;
        double* r = rows.data<double>() + 3 * row;
        r[0] = ids.data<int32_t>()[i], r[1] = world.rank(), r[2] = static_cast<double>(i);
      }
      auto there = ep::send_to_experts(plan, rows, world, lab.stream());
      there.arrived.wait();
      const Tensor grouped = ep::group_by_expert(plan, there.data, lab.stream());
      const int64_t first = world.rank() * experts / ranks;
      for (size_t e = 0; e + 1 < plan.offsets.size(); ++e)
        for (int64_t r = plan.offsets[e]; r < plan.offsets[e + 1]; ++r) {
          const double* row = grouped.data<double>() + 3 * r;
          EXPECT_EQ(row[0], static_cast<double>(first) + static_cast<double>(e));
          const double* before = row - 3;
          if (r > plan.offsets[e]) {
            EXPECT_LT(std::pair(before[1], before[2]), std::pair(row[1], row[2])) << "order in expert " << e;
          }
        }
      auto back = ep::send_to_tokens(plan, ep::group_by_source(plan, grouped, lab.stream()), world, lab.stream());
      back.arrived.wait();
      expect_bitwise(rows, back.data, Zeros::expected);
    });
}

}  // namespace
}  // namespace hexad::tests
