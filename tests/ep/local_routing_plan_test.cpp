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

Plans plans_for(Lab& lab, const std::vector<int32_t>& ids, int64_t top_k, int64_t experts, int chunks = 1) {
  static const comm::SelfGroup self;
  const Tensor chosen = lab.values(ids, {static_cast<int64_t>(ids.size()) / top_k, top_k});
  return {ep::make_local_routing_plan(chosen, experts, chunks, lab.stream()),
          plan_for_ids(chosen, experts, {&self, &self, &self}, {.chunking = {ep::Chunking::By::tokens, chunks}},
                       lab.stream())};
}

Rows part(const Tensor& all, int64_t begin, int64_t end) { return all.slice(0, begin, end).to_vector<int64_t>(); }

// Expects chunk c of both plans to be equal, except that the local plan also has a row for each dropped slot.
void expect_equal_chunk(const Plans& plans, size_t c, int64_t slots) {
  const ep::ChunkCounts &local = plans.local.counts.chunks.at(c), &known = plans.known.counts.chunks.at(c);
  EXPECT_EQ(local.slots(), slots);
  EXPECT_EQ(local.rows_to_send(), slots);
  EXPECT_EQ(local.rows_computed(), slots);
  EXPECT_EQ(local.rows_in_chunk, slots);
  EXPECT_EQ(local.splits.send, (Rows{slots}));
  EXPECT_EQ(local.splits.receive, (Rows{slots}));
  EXPECT_EQ(plans.local.indices.chunks.at(c).offsets.to_vector<int64_t>(), known.offsets);
  Rows tokens = part(plans.known.indices.wire_tokens, known.slots_begin, known.slots_end);
  tokens.resize(slots, -1);  // entries for the dropped slots
  EXPECT_EQ(part(plans.local.indices.wire_tokens, local.slots_begin, local.slots_end), tokens);
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

TEST(LocalRoutingPlan, ChunksHaveKRowsForEachToken) {
  Lab lab;
  const Plans plans = plans_for(lab, {2, 0, -1, 1, 0, 2, 1, -1, -1, -1}, 2, 3, 2);
  expect_equal_chunk(plans, 0, 6);  // tokens 0 to 2
  expect_equal_chunk(plans, 1, 4);
  EXPECT_EQ(plans.local.indices.rows.to_vector<int64_t>(), (Rows{3, 0, -1, 2, 1, 4, 6, -1, -1, -1}));
}

TEST(LocalRoutingPlan, HasEmptyChunksIfThereAreFewTokens) {
  Lab lab;
  const Plans plans = plans_for(lab, {1, 0, 0, 1}, 2, 2, 3);
  ASSERT_EQ(plans.local.counts.chunks.size(), 3);
  for (size_t c = 0; c < 3; ++c) expect_equal_chunk(plans, c, plans.known.counts.chunks[c].slots());
}

TEST(LocalRoutingPlan, RefusesZeroChunks) {
  Lab lab;
  const Tensor ids = lab.values(std::vector<int32_t>{0}, {1, 1});
  try {
    ep::make_local_routing_plan(ids, 1, 0, lab.stream());
    FAIL() << "nothing thrown";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[ep] a local routing plan has 0 chunks; expected at least 1");
  }
}

}  // namespace
}  // namespace hexad::tests
