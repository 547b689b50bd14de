// Ranks as a grid of nodes and positions in a node, and the groups along both dimensions.
#include "parallel/comm/node_groups.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"

namespace hexad::comm {
namespace {

std::vector<int> members_of(const ProcessGroup& group, int rank) {
  device::DeviceContext context;
  const int64_t mine[] = {rank};
  const auto ranks = group.all_gather_values(mine, context);
  return {ranks.begin(), ranks.end()};
}

TEST(NodeGrid, NumbersNodesAndPositionsInRankOrder) {
  const std::vector<int> nodes{7, 2, 7, 2, 2, 7};
  const NodeGrid grid(nodes);
  EXPECT_EQ(grid.nodes(), 2);
  EXPECT_EQ(grid.places(), 3);
  EXPECT_TRUE(grid.two_levels());
  EXPECT_EQ(grid.ranks(0), (std::vector{0, 2, 5}));
  EXPECT_EQ(grid.ranks(1), (std::vector{1, 3, 4}));
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(grid.rank(grid.node(rank), grid.place(rank)), rank);
}

TEST(NodeGrid, HasTwoLevelsOnlyIfSeveralNodesHaveTheSameNumberOfRanksAboveOne) {
  for (const auto& nodes : {std::vector{0}, std::vector{3, 3, 3}, std::vector{0, 1, 2}, std::vector{0, 0, 1}})
    EXPECT_FALSE(NodeGrid(nodes).two_levels()) << testing::PrintToString(nodes);
  EXPECT_EQ(NodeGrid(std::vector{0, 0, 1}).places(), 0);
  EXPECT_EQ(NodeGrid(std::vector{0, 1, 2}).places(), 1);
}

TEST(NodeGroups, HoldTheRanksOfOneNodeOrOfOnePosition) {
  with_ranks(6,
             [](const ProcessGroup& world) {
               const auto groups = split_by_node(world);
               ASSERT_TRUE(groups);
               const int r = world.rank();
               const std::vector<std::vector<int>> inside{{0, 2, 5}, {1, 3, 4}}, across{{0, 1}, {2, 3}, {5, 4}};
               const size_t node = r == 0 || r == 2 || r == 5 ? 0 : 1, place = r < 2 ? 0 : r < 4 ? 1 : 2;
               EXPECT_EQ(members_of(*groups->inside, r), inside[node]);
               EXPECT_EQ(members_of(*groups->across, r), across[place]);
               EXPECT_EQ(groups->inside->name(), "world inside a node");
               EXPECT_FALSE(groups->inside->crosses_nodes());
               EXPECT_TRUE(groups->across->crosses_nodes());
             },
             {.node_of_rank = {0, 1, 0, 1, 1, 0}});
}

TEST(NodeGroups, DoNotExistWithoutTwoLevels) {
  EXPECT_FALSE(split_by_node(SelfGroup()));
  with_ranks(3, [](const ProcessGroup& world) { EXPECT_FALSE(split_by_node(world)); }, {.node_of_rank = {0, 0, 1}});
}

}  // namespace
}  // namespace hexad::comm
