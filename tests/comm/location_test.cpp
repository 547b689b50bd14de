#include "parallel/comm/location.h"

#include <gtest/gtest.h>

namespace hexad::comm {
namespace {

Location at(const char* name, int leader) {
  Location location;
  location.set(name);
  location.leader = leader;
  return location;
}

TEST(Location, NodesAreNumberedInTheOrderOfTheirLowestRanks) {
  const std::vector<Location> ranks{at("b", 0), at("a", 1), at("b", 0), at("a", 1), at("b", 0)};
  const Topology topology = topology_of(ranks, 4);
  EXPECT_EQ(topology.rank, 4);
  EXPECT_EQ(topology.size, 5);
  EXPECT_EQ(topology.node_of_rank, (std::vector{0, 1, 0, 1, 0}));
  EXPECT_EQ(topology.node_names, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(topology.local_rank, 2);
  EXPECT_EQ(topology_of(ranks, 1).local_rank, 0);
}

TEST(Location, HostsOfTheSameNameWithoutSharedMemoryAreTwoNodes) {
  const std::vector<Location> ranks{at("localhost", 0), at("localhost", 0), at("localhost", 2)};
  EXPECT_EQ(topology_of(ranks, 2).node_of_rank, (std::vector{0, 0, 1}));
  EXPECT_EQ(topology_of(ranks, 2).local_rank, 0);
}

}  // namespace
}  // namespace hexad::comm
