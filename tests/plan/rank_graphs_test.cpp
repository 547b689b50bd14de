// Graphs that ranks send to each other, and the groups in which ranks communicate.
#include "tools/plan/rank_graphs.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using namespace plan;

using schedule::Cost;
using schedule::Lane;
using schedule::TaskGraph;
using schedule::TaskKind;

// Returns a graph of `rank` tasks. The costs of different tasks differ, also between ranks.
TaskGraph graph_of(int rank) {
  TaskGraph graph;
  for (int i = 0; i < rank; ++i) {
    const int n = 100 * rank + 10 * i;
    Cost cost{.flops = n + 0.5,
              .products = {n + 1, n + 2, n + 3},
              .dense = i % 2 == 0,
              .share = 1.0 / (n + 1),
              .wire_bytes = n + 4,
              .received_bytes = n + 5,
              .copy_bytes = n + 6,
              .group = i % 2 == 0 ? "experts" : "",
              .group_size = n + 7,
              .crosses_nodes = i % 2 == 0};
    for (int j = 0; j < i; ++j)
      cost.transfers.push_back({.kind = TaskKind::all_gather,
                                .wire_bytes = n + j,
                                .times = j + 1,
                                .group = j % 2 == 0 ? "tp" : "ep",
                                .group_size = n + 8,
                                .crosses_nodes = j % 2 == 1});
    std::vector<schedule::TaskId> after;
    for (int before = 0; before < i; ++before) after.push_back(before);
    graph.add({.lane = i == 0 ? Lane::inter : Lane::copy,
               .name = "T",
               .cost = cost,
               .kind = i == 0 ? TaskKind::reduce_scatter : TaskKind::copy},
              after, [](device::Stream&) { return device::Event{}; });
  }
  return graph;
}

TEST(RankGraphs, ArriveWithTheirCostsAndEdges) {
  on_ranks(4, [](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    const auto all = graphs_of_all(graph_of(world.rank()), world, context);
    ASSERT_EQ(all.size(), 4u);
    for (int rank = 0; rank < 4; ++rank) {
      const TaskGraph expected = graph_of(rank);
      const auto tasks = all[rank].tasks();
      ASSERT_EQ(tasks.size(), expected.tasks().size());
      for (size_t i = 0; i < tasks.size(); ++i) {
        const auto &got = tasks[i].spec, &want = expected.tasks()[i].spec;
        EXPECT_EQ(got.lane, want.lane);
        EXPECT_EQ(got.kind, want.kind);
        EXPECT_EQ(got.cost, want.cost);
        EXPECT_EQ(tasks[i].after, expected.tasks()[i].after);
      }
    }
  });
}

TEST(RankGraphs, AreEmptyForRanksWithoutTasks) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    const auto all = graphs_of_all({}, world, context);
    ASSERT_EQ(all.size(), 2u);
    for (const TaskGraph& graph : all) EXPECT_TRUE(graph.tasks().empty());
  });
}

TEST(RankGraphs, AreRefusedForAnUnknownGroup) {
  const comm::SelfGroup alone;
  device::DeviceContext context;
  TaskGraph graph;
  graph.add({.name = "T", .cost = {.group = "galaxy"}}, {}, [](device::Stream&) { return device::Event{}; });
  EXPECT_THROW(graphs_of_all(graph, alone, context), std::logic_error);
}

TEST(RankGroups, NumberAGroupByItsFirstRank) {
  const auto groups = rank_groups(mesh::Layout({.dp = 2, .tp = 2, .ep = 2, .etp = 2}, 4), std::vector{0, 0, 1, 1});
  EXPECT_EQ(groups.at("tp"), (std::vector{0, 0, 2, 2}));
  EXPECT_EQ(groups.at("etp"), (std::vector{0, 0, 2, 2}));
  EXPECT_EQ(groups.at("ep"), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(groups.at("experts"), (std::vector{0, 0, 0, 0}));
  EXPECT_EQ(groups.at("experts_inside"), (std::vector{0, 0, 2, 2}));
  EXPECT_EQ(groups.at("experts_across"), (std::vector{0, 1, 0, 1}));
  for (const char* name : {"ep_inside", "ep_across"})
    EXPECT_EQ(groups.at(name), (std::vector{0, 1, 2, 3})) << "an ep group has one rank on each node";
  EXPECT_EQ(groups.at(schedule::node_group), (std::vector{0, 0, 1, 1}));
}

TEST(RankGroups, MaxRanksOfNodeCountsTheFullestNode) {
  EXPECT_EQ(max_ranks_of_node(std::vector{0, 1, 1, 0, 1}), 3);
  EXPECT_EQ(max_ranks_of_node(std::vector{0}), 1);
}

// Returns the ranks of rank 0's Meeting in a layout of `ranks` ranks. Checks that the group of every rank's Meeting has
// the ranks that the Meeting lists.
std::vector<int> meeting_of_rank_0(int ranks, const mesh::Sizes& sizes) {
  std::vector<int> found;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    const mesh::Mesh mesh(world, sizes);
    const Meeting meeting = meeting_of(mesh);
    device::DeviceContext context;
    const int64_t mine[] = {world.rank()};
    const std::vector<int64_t> members = meeting.group->all_gather_values(mine, context);
    EXPECT_EQ(std::vector<int>(members.begin(), members.end()), meeting.ranks);
    if (world.rank() == 0) found = meeting.ranks;
  });
  return found;
}

TEST(Meeting, IsTheSmallestGroupThatContainsAllPeers) {
  EXPECT_EQ(meeting_of_rank_0(4, {.ep = 2}), (std::vector{0, 1})) << "ep x etp";
  EXPECT_EQ(meeting_of_rank_0(8, {.tp = 2, .ep = 2, .etp = 2}), (std::vector{0, 1, 2, 3})) << "ep x etp contains tp";
  EXPECT_EQ(meeting_of_rank_0(8, {.tp = 4, .ep = 2, .etp = 1}), (std::vector{0, 1, 2, 3})) << "tp contains ep x etp";
  EXPECT_EQ(meeting_of_rank_0(8, {.pp = 2, .tp = 2, .ep = 2, .etp = 1}).size(), 2u) << "one stage";
}

TEST(RankGroups, GroupsOfSomeRanksFollowTheirOrder) {
  const schedule::RankGroups all{{"tp", {0, 0, 2, 2}}, {"ep", {0, 1, 0, 1}}};
  const schedule::RankGroups some = groups_among(std::vector{3, 2}, all);
  EXPECT_EQ(some.at("tp"), (std::vector{2, 2}));
  EXPECT_EQ(some.at("ep"), (std::vector{1, 0}));
}

TEST(RankGroups, FollowTheOrderOfAxes) {
  const auto groups =
      rank_groups(mesh::Layout({.tp = 2, .ep = 2, .etp = 1, .order = "tp-cp-dp-ep-pp"}, 4), std::vector{0, 0, 1, 1});
  EXPECT_EQ(groups.at("tp"), (std::vector{0, 0, 2, 2}));
  EXPECT_EQ(groups.at("ep"), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(groups.at("etp"), (std::vector{0, 1, 2, 3}));
}

}  // namespace
}  // namespace hexad::tests
