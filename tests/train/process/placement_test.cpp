// Warnings about groups that span nodes unnecessarily.
#include "tools/train/process/process_placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace hexad::train {
namespace {

std::string warning(const mesh::Sizes& sizes, const std::vector<int>& node_of_rank) {
  return warn_of_placement(mesh::Layout(sizes, static_cast<int>(node_of_rank.size())), node_of_rank);
}

const std::vector<int> in_turn{0, 1, 0, 1}, node_by_node{0, 0, 1, 1};

TEST(Placement, WarnsOfGroupsAcrossNodesUnderRoundRobinRanks) {
  EXPECT_EQ(warning({.tp = 2}, in_turn),
            "the groups of parallel.tp (2) span several nodes, because ranks are not numbered node by "
            "node; fill one node after the other to keep these groups inside nodes: srun --distribution=block, "
            "mpirun --map-by slot");
  EXPECT_NE(warning({.ep = 2}, in_turn).find("the groups of parallel.ep (2) span"), std::string::npos);
}

TEST(Placement, DoesNotWarnIfGroupsStayInsideNodes) {
  EXPECT_EQ(warning({.tp = 2, .ep = 2}, node_by_node), "");
  EXPECT_EQ(warning({}, in_turn), "");
  EXPECT_EQ(warning({.tp = 2}, {0, 0}), "");
}

TEST(Placement, DoesNotWarnIfGroupsDoNotFitIntoANode) { EXPECT_EQ(warning({.tp = 4}, in_turn), ""); }

TEST(Placement, FindsRecurringNodesInTheRankOrder) {
  EXPECT_NE(warning({.tp = 2}, {0, 0, 1, 2, 1, 2}).find("parallel.tp (2)"), std::string::npos);
  EXPECT_EQ(warning({.tp = 2}, {1, 1, 0, 0}), "");
}

TEST(Placement, WarnsOfTensorRanksOnSeveralNodes) {
  EXPECT_EQ(warn_of_order({.tp = 2, .order = "dp-tp-cp-ep-pp"}, node_by_node),
            "the groups of parallel.tp (2), parallel.etp (2) span several nodes, because of parallel.order "
            "(dp-tp-cp-ep-pp); parallel.order: tp-dp-cp-ep-pp keeps them inside nodes");
  EXPECT_EQ(warn_of_order({.pp = 2, .tp = 2, .etp = 1, .order = "pp-tp-cp-ep-dp"}, node_by_node),
            "the groups of parallel.tp (2) span several nodes, because of parallel.order (pp-tp-cp-ep-dp); "
            "parallel.order: tp-cp-ep-dp-pp keeps them inside nodes");
}

TEST(Placement, DoesNotWarnOfAnOrderIfNoneIsBetter) {
  EXPECT_EQ(warn_of_order({.tp = 2}, in_turn), "");
  EXPECT_EQ(warn_of_order({.tp = 2, .order = "tp-cp-dp-ep-pp"}, node_by_node), "");
  EXPECT_EQ(warn_of_order({.tp = 4, .order = "dp-tp-cp-ep-pp"}, node_by_node), "");
}

TEST(Placement, NamesOtherPlacesThanNodes) {
  const std::string text = warn_of_order({.tp = 2, .order = "dp-tp-cp-ep-pp"}, node_by_node, "domains");
  EXPECT_NE(text.find("span several domains, because of"), std::string::npos) << text;
  EXPECT_NE(text.find("keeps them inside domains"), std::string::npos) << text;
}

TEST(Placement, CountsTheNodesThatGroupsSpan) {
  const auto spread = [](const mesh::Sizes& sizes) {
    std::string text;
    for (const AxisSpread& axis : spread_of_axes(mesh::Layout(sizes, 4), node_by_node))
      text += base::cat(text.empty() ? "" : ", ", mesh::name_of(axis.axis), " ", axis.nodes);
    return text;
  };
  EXPECT_EQ(spread({.tp = 2}), "tp 1, dp 2");
  EXPECT_EQ(spread({.tp = 2, .order = "dp-tp-cp-ep-pp"}), "tp 2, dp 1");
  EXPECT_EQ(spread({.ep = 2}), "ep 1, dp 2, edp 2");
  EXPECT_EQ(spread({.pp = 2, .tp = 2}), "tp 1, pp 2");
  EXPECT_EQ(spread({.tp = 2, .etp = 1}), "tp 1, dp 2, edp 2");
  EXPECT_EQ(spread({.tp = 2, .ep = 2, .order = "cp-ep-tp-dp-pp"}), "tp 1, ep 1, etp 2, dp 2");
}

}  // namespace
}  // namespace hexad::train
