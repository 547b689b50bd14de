// A rank with all experts makes the routing plan on the device of the ids. This plan must equal the plan made on the
// host.
#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/support/lab.h"

namespace hexad::tests {
namespace {

using Rows = std::vector<int64_t>;

struct Plans {
  ep::RoutingPlan local, known;
};

Plans plans_for(Lab& lab, const std::vector<int32_t>& ids, int64_t top_k, int64_t experts) {
  static const comm::SelfGroup self;
  const Tensor chosen = lab.values(ids, {static_cast<int64_t>(ids.size()) / top_k, top_k});
  return {ep::make_local_routing_plan(chosen, experts, lab.stream()),
          plan_for_ids(chosen, experts, {&self, &self, &self}, {}, lab.stream())};
}

void expect_equal(const Plans& plans, int64_t slots) {
  const ep::ChunkCounts &local = plans.local.counts.chunks.at(0), &known = plans.known.counts.chunks.at(0);
  EXPECT_EQ(plans.local.indices.chunks.at(0).offsets.to_vector<int64_t>(), known.offsets);
  EXPECT_EQ(plans.local.indices.rows.to_vector<int64_t>(), plans.known.indices.rows.to_vector<int64_t>());
  Rows tokens = plans.known.indices.wire_tokens.to_vector<int64_t>();
  tokens.resize(slots, -1);  // entries for the dropped slots
  EXPECT_EQ(plans.local.indices.wire_tokens.to_vector<int64_t>(), tokens);
  EXPECT_EQ(plans.local.counts.slots_per_row, plans.known.counts.slots_per_row);
  EXPECT_EQ(local.rows_computed(), slots);
  EXPECT_EQ(local.rows_to_send(), slots);
  EXPECT_EQ(local.splits.send, (Rows{slots}));
}

TEST(LocalRoutingPlan, EqualsTheHostsPlan) {
  Lab lab;
  expect_equal(plans_for(lab, {2, 0, 3, 1, 0, 2, 1, 3}, 2, 4), 8);
}

TEST(LocalRoutingPlan, DroppedSlotsComeLastAndBelongToNoExpert) {
  Lab lab;
  expect_equal(plans_for(lab, {2, 0, -1, 1, 0, -1, -1, -1}, 2, 3), 8);
}

TEST(LocalRoutingPlan, HandlesOneTokenOneExpertAndNoTokens) {
  Lab lab;
  expect_equal(plans_for(lab, {0}, 1, 1), 1);
  expect_equal(plans_for(lab, {-1}, 1, 2), 1);
  expect_equal(plans_for(lab, {}, 1, 2), 0);
}

}  // namespace
}  // namespace hexad::tests
