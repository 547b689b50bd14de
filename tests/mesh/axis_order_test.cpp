// Groups of ranks for several orders of axes, and orders that are refused.
#include "parallel/mesh/layout.h"

#include <gtest/gtest.h>

#include "tests/mesh/every_layout.h"

namespace hexad::mesh {
namespace {

// Returns the groups of an axis, sorted by their lowest ranks.
std::vector<std::vector<int>> groups(const Layout& m, Axis axis) {
  std::vector<std::vector<int>> all;
  for_each_group(
      m.world(), [&](int rank) { return m.members(axis, rank); },
      [&](const std::vector<int>& ranks) { all.push_back(ranks); });
  return all;
}
using Groups = std::vector<std::vector<int>>;

// Megatron-Core's default order: dense layers by tp-cp-dp-pp, experts by etp-ep-edp-pp.
TEST(Order, TpCpEpDpPpGroupsRanksLikeMegatronCore) {
  const Layout m({.pp = 2, .cp = 2, .tp = 2, .ep = 2, .etp = 1, .order = "tp-cp-ep-dp-pp"}, 16);
  EXPECT_EQ(groups(m, Axis::tp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(m, Axis::cp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups(m, Axis::dp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups(m, Axis::pp), (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  EXPECT_EQ(groups(m, Axis::ep), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(m, Axis::edp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(m.to_string(), "pp 2 x dp 2 x cp 2 x tp 2 | pp 2 x edp 4 x ep 2 x etp 1 (order tp-cp-ep-dp-pp)");
  EXPECT_EQ(m.expansion(), Expansion::automatic);
}

TEST(Order, TpCpDpEpPpPutsExpertsAlongData) {
  const Layout m({.cp = 2, .tp = 2, .ep = 2, .etp = 2, .order = "tp-cp-dp-ep-pp"}, 8);
  EXPECT_EQ(groups(m, Axis::tp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(m, Axis::cp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(m, Axis::dp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(m, Axis::etp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(m, Axis::edp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(m, Axis::ep), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

// The order is legal, because tp 2 and etp 2 put the same number of ranks before pp in both views.
TEST(Order, PpMayBeBetweenEqualFactors) {
  const Layout m({.pp = 2, .tp = 2, .ep = 2, .etp = 2, .order = "tp-pp-dp-cp-ep"}, 8);
  EXPECT_EQ(groups(m, Axis::pp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(m, Axis::dp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(m, Axis::ep), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(m, Axis::etp), groups(m, Axis::tp));
}

// MoNTA, Table 1, first row: two nodes of eight GPUs, with ep across nodes and whole experts on each tp rank.
TEST(Order, ExpertsLieAcrossNodesAsInMonta) {
  const Layout m({.tp = 8, .ep = 2, .etp = 1, .order = "tp-cp-dp-ep-pp"}, 16);
  EXPECT_EQ(groups(m, Axis::tp), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(groups(m, Axis::ep), (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  const Layout automatic({.tp = 8, .ep = 2, .etp = 1}, 16);
  EXPECT_EQ(automatic.members(Axis::ep, 0), (std::vector{0, 1}));
}

TEST(Layout, FirstGroupAcrossNodesIsFound) {
  const Layout m({.tp = 2, .ep = 2, .etp = 1, .order = "tp-cp-ep-dp-pp"}, 8);
  EXPECT_EQ(groups(m, Axis::tp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(group_across_nodes(m, Axis::tp, std::array{0, 0, 0, 0, 1, 1, 1, 1}), std::vector<int>{});
  EXPECT_EQ(group_across_nodes(m, Axis::tp, std::array{0, 0, 0, 1, 1, 1, 1, 2}), (std::vector{2, 3}));
}

TEST(Order, GroupsOfTwoAxesKeepTheirOwnOrder) {
  const Layout m({.pp = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 1, .order = "dp-ep-cp-tp-pp"}, 16);
  EXPECT_EQ(m.token_sharers(5), (std::vector{1, 5, 3, 7}));  // (cp, tp): neighbouring tp ranks differ by 4
  EXPECT_EQ(m.reducers({.view = MeshView::dense}, 5), (std::vector{4, 5, 6, 7}));
}

TEST(Order, RefusalsNameTheAxisAndTheNearestLegalOrder) {
  const std::string expected = "; expected tp, cp, ep, dp and pp once each, joined by '-'; the nearest legal order is ";
  const auto of = [](const char* order) { return refusal({.order = order}, 4); };
  EXPECT_EQ(of("tp-cp-xp-dp-pp"),
            "parallel.order (tp-cp-xp-dp-pp) has an axis 'xp', lacks ep" + expected + "tp-cp-ep-dp-pp");
  EXPECT_EQ(of("tp-cp-ep-tp-pp"),
            "parallel.order (tp-cp-ep-tp-pp) names tp twice, lacks dp" + expected + "tp-cp-ep-dp-pp");
  EXPECT_EQ(of("cp-tp-dp-pp"), "parallel.order (cp-tp-dp-pp) lacks ep" + expected + "cp-ep-tp-dp-pp");
  EXPECT_EQ(of("pp-dp"), "parallel.order (pp-dp) lacks tp, lacks cp, lacks ep" + expected + "tp-cp-ep-pp-dp");
  EXPECT_EQ(of("tp-cp-ep-dp-pp-"),
            "parallel.order (tp-cp-ep-dp-pp-) has an axis without a name" + expected + "tp-cp-ep-dp-pp");
}

TEST(Order, RankOnTwoStagesIsRefusedWithTheArithmetic) {
  EXPECT_EQ(refusal({.pp = 2, .tp = 2, .ep = 2, .etp = 1, .order = "tp-pp-cp-ep-dp"}, 8),
            "parallel.order (tp-pp-cp-ep-dp) puts pp after tp 2 = 2 ranks of dense layers, but after etp 1 = 1 rank of "
            "experts, so that a rank would be on two stages; the nearest legal order is pp-tp-cp-ep-dp");
  EXPECT_EQ(refusal({.pp = 2, .cp = 2, .ep = 2, .order = "cp-tp-pp-ep-dp"}, 8),
            "parallel.order (cp-tp-pp-ep-dp) puts pp after cp 2 x tp 1 = 2 ranks of dense layers, but after etp 1 = 1 "
            "rank of experts, so that a rank would be on two stages; the nearest legal order is cp-tp-ep-pp-dp");
}

TEST(Order, ExcludesAnExpansion) {
  EXPECT_EQ(
      refusal({.cp = 2, .expansion = Expansion::vertical, .order = "tp-cp-ep-dp-pp"}, 4),
      "parallel.cp_expansion (vertical) must be auto, because parallel.order (tp-cp-ep-dp-pp) places the experts");
}

}  // namespace
}  // namespace hexad::mesh
