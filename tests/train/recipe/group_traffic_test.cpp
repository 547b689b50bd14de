// Traffic of the groups of a rank, for recipes and placements of ranks on nodes.
#include "tools/train/recipe/traffic_options.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/comm/imagined_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using comm::GroupTraffic;
using comm::Urgency;
using enum comm::TrafficClass;
namespace {

constexpr const char* yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  layers: 4
  moe:
    experts: 8
batch:
  global: 32
  micro: 1
data:
  synthetic: true
)";

// Returns the traffic of the groups of rank 0, for ranks on the nodes `node_of_rank`.
std::set<GroupTraffic> traffic(const std::vector<std::string>& overrides, const std::vector<int>& node_of_rank) {
  const int ranks = static_cast<int>(node_of_rank.size());
  const comm::ImaginedGroup world(0, ranks, nullptr, node_of_rank);
  const auto all = traffic_of_groups(recipe_of(yaml, overrides, ranks), world, {});
  const std::set<GroupTraffic> distinct(all.begin(), all.end());
  EXPECT_EQ(all.size(), distinct.size()) << "the list has duplicates";
  return distinct;
}

TEST(GroupsTraffic, SeparatesGroupsInsideAndAcrossNodes) {
  EXPECT_EQ(traffic({"parallel.pp=2"}, {0, 0, 1, 1}),  // stages are neighbours, replicas are on two nodes
            (std::set<GroupTraffic>{{.traffic = control, .across_nodes = true},
                                    {.traffic = pp},
                                    {.traffic = dp, .across_nodes = true},
                                    {.traffic = pp, .channels = 2}}));
  const auto four_on_two_nodes = traffic({"parallel.ep=2"}, {0, 0, 1, 1});
  EXPECT_TRUE(four_on_two_nodes.contains({.traffic = ep}));
  EXPECT_TRUE(four_on_two_nodes.contains({.traffic = dp, .across_nodes = true}));
  EXPECT_FALSE(four_on_two_nodes.contains({.traffic = ep, .across_nodes = true}));
}

TEST(GroupsTraffic, HasUrgentGathersUnderZero3) {
  const GroupTraffic urgent{.traffic = dp, .urgency = Urgency::urgent};
  EXPECT_FALSE(traffic({"parallel.zero=2"}, {0, 0}).contains(urgent));
  EXPECT_TRUE(traffic({"parallel.zero=3"}, {0, 0}).contains(urgent));
}

TEST(GroupsTraffic, HasTheMessagesOfTensorRanksAndSequences) {
  EXPECT_TRUE(traffic({"parallel.tp=4", "parallel.sp=true"}, {0, 0, 0, 0}).contains({.traffic = tp, .channels = 6}));
  const std::vector<std::string> ring{"parallel.cp=2", "model.context=64"};
  EXPECT_TRUE(traffic(ring, {0, 0}).contains({.traffic = cp, .channels = 2}));
}

}  // namespace
}  // namespace hexad::tests
