// All-to-alls of rows in two steps, between nodes and within them, give the same bits as in one step.
#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "tests/moe/every_schedule.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace base;
namespace {

// Compares the layer under a one-step and a two-step all-to-all. All other settings are equal.
void compare_all_to_alls(const Words& overrides, const std::vector<int>& node_of_rank) {
  const comm::ThreadOptions late{.node_of_rank = node_of_rank,
                                 .jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
  comm::with_ranks(
      static_cast<int>(node_of_rank.size()),
      [&](const comm::ProcessGroup& world) {
        const auto one = ScheduledLayer(world, overrides).run();
        const auto two = ScheduledLayer(world, joined(overrides, {"schedule.moe.all_to_all=hierarchical"})).run();
        expect_same_bits(one, two);
      },
      late);
}

TEST(Schedules, GiveTheSameBitsWhenRowsAreSentInTwoSteps) {
  const std::vector<int> node_of_rank{0, 0, 1, 1};
  for (const Mesh4& m : meshes)
    for (const Schedule& s : schedules()) {
      if (!possible(s, m)) continue;
      SCOPED_TRACE(m.name + " " + s.name);
      compare_all_to_alls(joined(m.overrides, s.overrides), node_of_rank);
    }
}

// Rows in fp8 are rounded once before they are sent, and not again between the two steps.
TEST(Schedules, TwoStepsGiveTheSameBitsOnAnyNodes) {
  const std::vector<int> topologies[] = {{0, 0, 0, 0, 1, 1, 1, 1},
                                         {0, 0, 1, 1, 2, 2, 3, 3},
                                         {0, 1, 0, 1, 1, 0, 1, 0},
                                         {0, 1, 2, 3, 4, 5, 6, 7},
                                         {0, 0, 0, 0, 0, 0, 0, 0}};
  const Words ways[] = {
      {},
      {"schedule.moe.wire=fp8"},
      {"schedule.moe.rows=token", "schedule.moe.wire=fp8"},
      {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=5"},
      {"schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"},
      {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.routing=zipf", "model.moe.zipf_exponent=4"}};
  for (const auto& nodes : topologies)
    for (const Words& way : ways) {
      SCOPED_TRACE(testing::PrintToString(nodes) + " " + testing::PrintToString(way));
      compare_all_to_alls(joined({"parallel.ep=8"}, way), nodes);
    }
  for (const Words& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way));
    compare_all_to_alls(joined({"parallel.ep=4", "parallel.etp=2"}, way), topologies[0]);
    compare_all_to_alls(joined({"parallel.ep=2", "parallel.etp=4", "schedule.moe.esp_exchange=direct"}, way),
                        topologies[0]);
  }
}

// Returns the message that refuses two-step sending for groups of four ranks on these nodes.
std::string refusal_of_two_steps(const std::vector<int>& node_of_rank) {
  const Words two{"parallel.ep=4", "schedule.moe.all_to_all=hierarchical"};
  try {
    comm::with_ranks(static_cast<int>(node_of_rank.size()),
                     [&](const comm::ProcessGroup& world) { ScheduledLayer(world, two).run(); },
                     {.node_of_rank = node_of_rank});
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "not refused";
}

TEST(Schedules, TwoStepsAreRefusedOnNodesWithUnequalRanks) {
  EXPECT_EQ(refusal_of_two_steps({0, 0, 0, 1}),
            "schedule.moe.all_to_all is hierarchical, which needs the same number of ranks on each node of an "
            "all-to-all, but the all-to-all of rank 0 has 3 + 1 = 4 ranks on 2 nodes; legal here: direct");
}

// Ranks of a group with two levels and ranks of a group with one level would issue different numbers of tasks.
TEST(Schedules, TwoStepsAreRefusedIfOnlySomeGroupsHaveTwoLevels) {
  EXPECT_EQ(refusal_of_two_steps({0, 0, 0, 0, 0, 0, 1, 1}),
            "schedule.moe.all_to_all is hierarchical, which needs all groups of ep ranks to be placed on nodes "
            "in the same way, but the group of rank 4 is on several nodes with equally many "
            "ranks, at least 2 each, and another group is not; legal here: direct");
}

}  // namespace
}  // namespace hexad::tests
