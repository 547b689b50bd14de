// Estimates of the memory that NCCL takes to connect the ranks of a communicator, by kind of operation.
#include "parallel/comm/connection_bytes.h"

#include <gtest/gtest.h>

#include "framework/device/context.h"

namespace hexad::comm::nccl {
namespace {

constexpr int64_t mib = 1 << 20;
constexpr CommunicatorShape on_a_node{.ranks = 8, .ranks_here = 8, .channels = 16};
constexpr CommunicatorShape on_two_nodes{.ranks = 16, .ranks_here = 8, .channels = 8};

TEST(ConnectionBytes, GrowWithPeersAndChannelsOfAnExchange) {
  // For each peer and channel, NCCL needs 9,637,888 bytes to receive and 4,096 bytes to send. It allocates whole pages
  // of 2 MiB: 10 MiB and 2 MiB.
  EXPECT_EQ(connection_bytes(on_a_node, Use::exchanges), 16 * 7 * 12 * mib);
  CommunicatorShape fewer = on_a_node;
  fewer.channels = 8;
  EXPECT_EQ(connection_bytes(fewer, Use::exchanges), 8 * 7 * 12 * mib);
  fewer.ranks = fewer.ranks_here = 2;
  EXPECT_EQ(connection_bytes(fewer, Use::exchanges), 8 * 12 * mib);
}

TEST(ConnectionBytes, IncludeNetworkBuffersOfBothDirectionsForAnExchangeAcrossNodes) {
  EXPECT_EQ(connection_bytes(on_two_nodes, Use::exchanges), 2 * 7 * 12 * mib + 2 * 8 * 2 * mib);
}

TEST(ConnectionBytes, IncludeBothDirectionsOfRingsAndNvlinkSharpForSums) {
  EXPECT_EQ(connection_bytes(on_a_node, Use::gathers), 16 * 12 * mib);
  EXPECT_EQ(connection_bytes(on_a_node, Use::small_sums), 2 * 16 * 12 * mib);
  EXPECT_EQ(connection_bytes(on_a_node, Use::sums), 2 * 16 * 12 * mib + 256 * mib);
  CommunicatorShape pair = on_a_node;
  pair.ranks = pair.ranks_here = 2;
  EXPECT_EQ(connection_bytes(pair, Use::small_sums), 16 * 12 * mib) << "both directions lead to the same rank";
}

TEST(ConnectionBytes, AreLargerForRingsIfARankSendsToAnotherNode) {
  EXPECT_EQ(connection_bytes(on_two_nodes, Use::gathers), 8 * 12 * mib + 8 * mib);
}

TEST(ConnectionBytes, AreThoseOfRingsThatLeaveANodeAtAnotherRankInTheOppositeDirection) {
  const CommunicatorShape one_channel{.ranks = 4, .ranks_here = 2, .channels = 1};
  EXPECT_EQ(connection_bytes(one_channel, Use::counts), 2 * 12 * mib + 8 * mib);
  const CommunicatorShape rank_per_node{.ranks = 4, .ranks_here = 1, .channels = 1};
  EXPECT_EQ(connection_bytes(rank_per_node, Use::counts), 2 * 12 * mib + 2 * 8 * mib);
}

TEST(MessageBytes, CountTheEndsOfRoutes) {
  const std::vector<Route> ring{{0, 1}, {1, 2}, {2, 0}};
  const std::vector<int> one_node(4, 0);
  EXPECT_EQ(message_config(false, 2).max_ctas, 8);
  EXPECT_EQ(message_bytes(ring, 2, 1, one_node), 8 * (10 + 2) * mib);
  EXPECT_EQ(message_bytes(std::vector<Route>{{0, 1}}, 2, 0, one_node), 8 * 2 * mib)
      << "a sending rank needs 2 MiB per channel";
  EXPECT_EQ(message_bytes(std::vector<Route>{{0, 1}}, 2, 1, one_node), 8 * 10 * mib)
      << "a receiving rank needs 10 MiB per channel";
  EXPECT_EQ(message_bytes(ring, 2, 3, one_node), 0);
}

TEST(MessageBytes, HaveFewerChannelsIfThereAreManyRoutes) {
  const int most = 14;
  EXPECT_EQ(message_config(false, most).max_ctas, 2);
  EXPECT_EQ(message_bytes(all_routes(8), most, 3, std::vector<int>(8, 0)), 7 * 2 * 12 * mib);
}

TEST(MessageBytes, AreThoseOfNetworkBuffersAcrossNodes) {
  const std::vector<Route> both{{0, 1}, {1, 0}};
  EXPECT_EQ(message_config(true, 2).max_ctas, 4);
  EXPECT_EQ(message_bytes(both, 2, 0, {0, 1}), 2 * 4 * 2 * mib);
}

TEST(ConnectionBytes, AreCountedOnceForSharedConnections) {
  EXPECT_EQ(connection_bytes(on_a_node, {Use::sums, Use::gathers, Use::shares, Use::counts}),
            connection_bytes(on_a_node, Use::sums));
  EXPECT_EQ(connection_bytes(on_a_node, {Use::sums, Use::exchanges}),
            connection_bytes(on_a_node, Use::sums) + connection_bytes(on_a_node, Use::exchanges));
}

TEST(ConnectionBytes, AreZeroForOneRankAndWithoutUses) {
  EXPECT_EQ(connection_bytes({}, {Use::sums, Use::exchanges}), 0);
  EXPECT_EQ(connection_bytes(on_a_node, {}), 0);
}

TEST(ConnectionBytes, FollowTheChannelsOfTheClass) {
  const CommunicatorShape ep = shape_of({.traffic = TrafficClass::ep}, 8, 8);
  EXPECT_EQ(ep.channels, config_of({.traffic = TrafficClass::ep}).max_ctas);
}

TEST(Uses, IncludeExchangesForSumsInRankOrder) {
  EXPECT_EQ(with_sums_in_order({Use::sums, Use::gathers}), (Uses{Use::exchanges, Use::gathers}));
  EXPECT_EQ(with_sums_in_order({Use::shares}), Uses(Use::exchanges));
  EXPECT_EQ(with_sums_in_order({Use::counts, Use::messages}), (Uses{Use::counts, Use::messages}));
}

TEST(Uses, DependOnTypeAndSizeOfOperations) {
  device::DeviceContext host;
  const auto sum_of = [&](int64_t bytes, base::Dtype dtype) {
    const Tensor x = Tensor::empty({bytes / base::size_of(dtype)}, dtype, host);
    return use_of({.kind = Operation::Kind::all_reduce, .out = x});
  };
  EXPECT_EQ(sum_of(least_large_sum, base::Dtype::f32), Use::sums);
  EXPECT_EQ(sum_of(least_large_sum - 8, base::Dtype::f64), Use::small_sums);
  EXPECT_EQ(sum_of(least_large_sum, base::Dtype::i64), Use::counts);
  EXPECT_EQ(use_of({.kind = Operation::Kind::broadcast}), Use::gathers);
}

}  // namespace
}  // namespace hexad::comm::nccl
