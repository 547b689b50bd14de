#include "parallel/comm/nccl/message_pieces.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/comm/class_config.h"
#include "parallel/comm/message_routes.h"

namespace hexad::comm::nccl {
namespace {

TEST(Pieces, CoverAllElementsEvenlyWithinTheLimit) {
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{1} << 35})
    for (const int64_t most : {int64_t{1} << 30, int64_t{4096}, int64_t{5}}) {
      if (count / most > 100000) continue;
      int64_t end = 0, shortest = count, longest = 0;
      for (const Piece& p : pieces_of(count, most)) {
        EXPECT_EQ(p.begin, end);
        end += p.count;
        shortest = std::min(shortest, p.count), longest = std::max(longest, p.count);
      }
      EXPECT_EQ(end, count);
      EXPECT_LE(longest, most);
      EXPECT_LE(longest - shortest, 1);
    }
}

TEST(Pieces, CoverNothingWithOneEmptyPiece) { EXPECT_EQ(pieces_of(0, 100), (std::vector<Piece>{{0, 0}})); }

TEST(Shares, CoverAllElements) {
  for (const int64_t count : {0, 1, 7, 8, 1009})
    for (const int parts : {1, 3, 8}) {
      int64_t end = 0;
      for (int p = 0; p < parts; ++p) {
        EXPECT_EQ(share_of(count, p, parts).begin, end);
        end += share_of(count, p, parts).count;
      }
      EXPECT_EQ(end, count);
    }
}

TEST(Rounds, PairAllRanksOnceAndNoRankTwiceAtATime) {
  for (int size = 2; size <= 17; ++size) {
    std::set<std::pair<int, int>> matched;
    for (int round = 0; round < rounds_of(size); ++round)
      for (int rank = 0; rank < size; ++rank) {
        const auto partner = partner_of(rank, round, size);
        if (!partner) continue;
        EXPECT_EQ(partner_of(*partner, round, size), rank) << size << " ranks, round " << round;
        EXPECT_TRUE(matched.emplace(rank, *partner).second);
      }
    EXPECT_EQ(matched.size(), static_cast<size_t>(size * (size - 1)));
  }
}

TEST(StreamPriorities, FollowThePrioritiesOfTheClasses) {
  const auto of = [](StreamKind kind, const Priorities& p = {}) { return stream_priority(kind, p, 0, -5); };
  EXPECT_EQ(of({.traffic = TrafficClass::control}), -5);
  EXPECT_EQ(of({.traffic = TrafficClass::tp}), -4);
  EXPECT_EQ(of({.traffic = TrafficClass::dp}), 0);
  EXPECT_EQ(of({.traffic = TrafficClass::dp, .urgency = Urgency::urgent}), -1);
  EXPECT_EQ(of({.traffic = TrafficClass::tp}, Priorities::by_arrival()), 0);
  EXPECT_EQ(of({.traffic = TrafficClass::dp, .urgency = Urgency::urgent}, Priorities::by_arrival()), 0);
  EXPECT_EQ(stream_priority({.traffic = TrafficClass::tp}, {}, 0, -1), -1) << "a card may have only two priorities";
}

constexpr int h100 = 132;  // multiprocessors

// Returns the traffic of a pipeline stage that spans several nodes, under ZeRO-3. The stage has ep groups inside nodes
// and ep groups across nodes.
std::vector<GroupTraffic> traffic_of_a_stage() {
  using enum TrafficClass;
  return {{.traffic = control, .across_nodes = true},
          {.traffic = tp},
          {.traffic = ep},
          {.traffic = ep, .across_nodes = true},
          {.traffic = cp},
          {.traffic = pp, .across_nodes = true},
          {.traffic = dp, .across_nodes = true},
          {.traffic = dp, .urgency = Urgency::urgent, .across_nodes = true},
          {.traffic = pp, .channels = 4},
          {.traffic = cp, .channels = 2}};
}

TEST(ThreadBlocks, AreNotReducedForAStageOnSeveralNodes) {
  const auto groups = traffic_of_a_stage();
  EXPECT_EQ(blocks_in_flight(groups, ctas_limit), 121);
  EXPECT_EQ(max_ctas_of(groups, h100), ctas_limit);
}

TEST(ThreadBlocks, AreReducedIfGradientsAreSummedInsideAndAcrossNodes) {
  auto groups = traffic_of_a_stage();
  for (const Urgency urgency : {Urgency::urgent, Urgency::ordinary})
    groups.push_back({.traffic = TrafficClass::dp, .urgency = urgency});
  EXPECT_EQ(blocks_in_flight(groups, ctas_limit), 153);
  EXPECT_EQ(max_ctas_of(groups, h100), 8);
  EXPECT_LE(blocks_in_flight(groups, 8), h100);
}

TEST(ThreadBlocks, FollowTheMultiprocessorsOfTheCard) {
  constexpr int b200 = 148, a100 = 108, small = 40, tiny = 20;
  auto groups = traffic_of_a_stage();
  EXPECT_EQ(max_ctas_of(groups, b200), ctas_limit);
  EXPECT_EQ(max_ctas_of(groups, a100), 8) << "12 blocks need 113 multiprocessors";
  for (const Urgency urgency : {Urgency::urgent, Urgency::ordinary})
    groups.push_back({.traffic = TrafficClass::dp, .urgency = urgency});
  EXPECT_EQ(max_ctas_of(groups, b200), 12) << "12 blocks need 137 multiprocessors";
  EXPECT_EQ(max_ctas_of(groups, h100), 8) << "8 blocks need 121 multiprocessors";
  EXPECT_EQ(max_ctas_of(groups, a100), 4) << "4 blocks need 61 multiprocessors";
  EXPECT_EQ(max_ctas_of(groups, small), 2) << "2 blocks need 31 multiprocessors";
  EXPECT_EQ(max_ctas_of(groups, tiny), 1);
}

TEST(ThreadBlocks, AreOneForControlTraffic) {
  for (const bool across_nodes : {false, true})
    EXPECT_EQ(config_of({.traffic = TrafficClass::control, .across_nodes = across_nodes}).max_ctas, 1);
}

TEST(ThreadBlocks, FitOnACardForTheGroupsOfAnyLayout) {
  using enum TrafficClass;
  std::vector<GroupTraffic> groups;
  for (const TrafficClass traffic : {control, tp, ep, pp, cp, dp})
    for (const Urgency urgency : {Urgency::urgent, Urgency::ordinary})
      for (const bool across_nodes : {false, true})
        groups.push_back({.traffic = traffic, .urgency = urgency, .across_nodes = across_nodes});
  constexpr int all_of_a_node = 14;  // channels of a rank that exchanges messages with seven others
  for (const auto& [traffic, channels] : {std::pair(tp, all_of_a_node), {ep, all_of_a_node}, {pp, 4}, {cp, 4}}) {
    groups.push_back({.traffic = traffic, .channels = channels});
    EXPECT_LE(blocks_in_flight(groups, max_ctas_of(groups, h100)), h100);
  }
}

TEST(ThreadBlocks, CountOnceForGroupsThatShareAStream) {
  const std::vector<GroupTraffic> groups(20, {.traffic = TrafficClass::dp});
  EXPECT_EQ(blocks_in_flight(groups, ctas_limit), 16);
}

TEST(ThreadBlocks, AreFewerForMessagesWithManyChannels) {
  const auto most = [](bool across_nodes, int channels) { return message_config(across_nodes, channels).max_ctas; };
  EXPECT_EQ(most(false, 2), 8);
  EXPECT_EQ(most(false, 4), 8);
  EXPECT_EQ(most(true, 2), 4);
  EXPECT_EQ(most(true, 4), 4);
  for (int peers = 1; peers <= 8; ++peers) EXPECT_LE(2 * peers * most(false, 2 * peers), 32) << peers << " peers";
  EXPECT_EQ(most(false, 100), 2);
}

TEST(Routes, AreCountedInBothDirections) {
  EXPECT_EQ(max_routes_per_rank({}), 0);
  EXPECT_EQ(max_routes_per_rank({{0, 1}, {1, 2}, {2, 0}}), 2);
  EXPECT_EQ(max_routes_per_rank({{0, 1}, {1, 0}, {1, 2}}), 3);
  const auto all = all_routes(8);
  EXPECT_EQ(all.size(), 56u);
  EXPECT_EQ(max_routes_per_rank({all.begin(), all.end()}), 14);
}

}  // namespace
}  // namespace hexad::comm::nccl
