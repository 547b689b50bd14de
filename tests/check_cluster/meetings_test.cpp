#include "tools/check_cluster/meetings.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace hexad::check_cluster {
namespace {

TEST(Opponents, EveryPairMeetsOnceInDisjointPairs) {
  for (int64_t count = 0; count <= 17; ++count) {
    std::map<std::pair<int64_t, int64_t>, int> met;
    for (int64_t round = 0; round < rounds_of(count); ++round)
      for (int64_t player = 0; player < count; ++player) {
        const auto other = opponent_of(round, player, count);
        if (!other) continue;
        ASSERT_NE(*other, player) << count << " players, round " << round;
        ASSERT_LT(*other, count);
        ASSERT_EQ(opponent_of(round, *other, count), player) << count << " players, round " << round;
        ++met[{player, *other}];
      }
    EXPECT_EQ(static_cast<int64_t>(met.size()), count * (count - (count > 0 ? 1 : 0))) << count << " players";
    for (const auto& [pair, times] : met) EXPECT_EQ(times, 1);
  }
}

// Returns the meetings of all ranks. Expects every two ranks that meet to agree on the round.
std::vector<std::vector<int>> agreed_meetings(const std::vector<int>& node_of_rank, int64_t max_rounds = INT64_MAX) {
  const comm::NodeGrid grid(node_of_rank);
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < static_cast<int>(node_of_rank.size()); ++rank)
    all.push_back(meetings_of(grid, rank, max_rounds));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_EQ(all[rank].size(), all[0].size());
    for (size_t i = 0; i < all[rank].size(); ++i)
      if (const int other = all[rank][i]; other >= 0) {
        EXPECT_EQ(all[other][i], static_cast<int>(rank));
      }
  }
  return all;
}

TEST(Meetings, OneRankHasNoMeetings) { EXPECT_TRUE(agreed_meetings({0})[0].empty()); }

TEST(Meetings, RanksMeetAllRanksOfTheirNodeAndOneRankOfEachOtherNode) {
  const auto all = agreed_meetings({0, 0, 1, 1, 2, 2});
  std::set<int> met(all[2].begin(), all[2].end());
  met.erase(-1);
  EXPECT_EQ(met, (std::set<int>{0, 3, 4}));
}

TEST(Meetings, NoTwoPairsShareTheLinkOfANode) {
  const std::vector<int> node_of_rank{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};
  const auto all = agreed_meetings(node_of_rank);
  ASSERT_FALSE(all[0].empty());
  for (size_t round = 0; round < all[0].size(); ++round) {
    std::map<int, int> crossing;
    for (size_t rank = 0; rank < all.size(); ++rank)
      if (const int other = all[rank][round]; other >= 0 && node_of_rank[other] != node_of_rank[rank])
        ++crossing[node_of_rank[rank]];
    for (const auto& [node, pairs] : crossing) EXPECT_EQ(pairs, 1) << "node " << node << ", round " << round;
  }
}

TEST(Meetings, RanksOfUnequalNodesMeet) {
  const auto all = agreed_meetings({0, 1, 1, 1, 0, 2});
  std::set<int> met(all[5].begin(), all[5].end());
  met.erase(-1);
  EXPECT_EQ(met, (std::set<int>{0, 1}));
}

// Returns the node of each rank, for nodes with the same number of ranks.
std::vector<int> equal_nodes(int nodes, int ranks_of_node) {
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < nodes * ranks_of_node; ++rank) node_of_rank.push_back(rank / ranks_of_node);
  return node_of_rank;
}

TEST(Meetings, IndicesOfRanksAreSampledSoThatRoundsStayWithinTheirLimit) {
  const auto node_of_rank = equal_nodes(32, 16);
  const int64_t inside = 15, across = 31;
  EXPECT_EQ(static_cast<int64_t>(agreed_meetings(node_of_rank)[0].size()), inside + 16 * across);
  const auto all = agreed_meetings(node_of_rank, 200);
  const int64_t places = (200 - inside) / across;
  EXPECT_EQ(static_cast<int64_t>(all[0].size()), inside + places * across);
  int64_t crossing = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::set<int> met(all[rank].begin(), all[rank].end());
    int64_t others = 0;
    for (const int other : met) others += other >= 0 && node_of_rank[other] != node_of_rank[rank];
    EXPECT_TRUE(others == 0 || others == across) << "rank " << rank << " meets " << others << " ranks of other nodes";
    crossing += others > 0;
  }
  EXPECT_EQ(crossing, 32 * places);
}

TEST(Meetings, RoundsInsideLargeNodesAreSampledToo) {
  const auto node_of_rank = equal_nodes(3, 160);
  EXPECT_EQ(agreed_meetings(node_of_rank)[0].size(), 159u + 160 * 3);
  EXPECT_EQ(static_cast<int64_t>(agreed_meetings(node_of_rank, 0)[0].size()), least_rounds);
}

TEST(Meetings, RanksOfManyNodesMeetASample) {
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < 200; ++rank) node_of_rank.push_back(rank);
  const auto all = agreed_meetings(node_of_rank);
  EXPECT_EQ(static_cast<int64_t>(all[0].size()), max_nodes_of_all_pairs);
  for (const auto& meetings : all) EXPECT_EQ(std::set<int>(meetings.begin(), meetings.end()).size(), meetings.size());
}

}  // namespace
}  // namespace hexad::check_cluster
