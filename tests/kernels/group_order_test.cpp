// Order of the groups of a grouped product. In weight gradients, long tiles come first, so that no multiprocessor
// begins a long tile late.
#include "framework/kernels/cuda/products/group_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace hexad::kernels::cuda {
namespace {

std::vector<int64_t> offsets_of(const std::vector<int64_t>& rows, int64_t begin = 0) {
  std::vector<int64_t> offsets{begin};
  for (const int64_t r : rows) offsets.push_back(offsets.back() + r);
  return offsets;
}

/// Returns the groups in the order of a pass's list. An entry is -1 if no group has this position.
std::vector<int64_t> listed(GroupedPass pass, const std::vector<int64_t>& rows, int64_t begin = 0) {
  const std::vector<int64_t> offsets = offsets_of(rows, begin);
  const auto groups = static_cast<int64_t>(rows.size());
  std::vector<int64_t> list(rows.size(), -1);
  for (int64_t e = 0; e < groups; ++e) list.at(place_of_group(pass, e, offsets.data(), groups)) = e;
  return list;
}

TEST(GroupOrder, ListsWeightGradientsByDecreasingRows) {
  EXPECT_EQ(listed(GroupedPass::weight_gradient, {3, 0, 9, 3, 0, 12, 3}), (std::vector<int64_t>{5, 2, 0, 3, 6, 1, 4}));
  EXPECT_EQ(listed(GroupedPass::weight_gradient, {3, 0, 9}, 100), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(listed(GroupedPass::weight_gradient, {7}), (std::vector<int64_t>{0}));
  EXPECT_EQ(listed(GroupedPass::weight_gradient, {0, 0, 0}), (std::vector<int64_t>{0, 1, 2}));
}

TEST(GroupOrder, EqualsAStableSortForTwoToFifteenHundredGroups) {
  for (const size_t groups : {2u, 32u, 1024u, 1500u}) {
    std::vector<int64_t> rows, expected(groups);
    for (size_t e = 0; e < groups; ++e) rows.push_back(static_cast<int64_t>(e * 7919 % 101));
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, std::greater(), [&](int64_t e) { return rows[e]; });
    EXPECT_EQ(listed(GroupedPass::weight_gradient, rows), expected) << groups << " groups";
  }
}

TEST(GroupOrder, KeepsTheOrderOfPassesWithEquallyLongTiles) {
  for (const GroupedPass pass : {GroupedPass::forward, GroupedPass::input_gradient})
    EXPECT_EQ(listed(pass, {1, 5, 0, 3}), (std::vector<int64_t>{0, 1, 2, 3}));
}

/// Returns the time of the busiest cluster, divided by the mean time of all clusters. CUTLASS's static scheduler deals
/// tiles to clusters in turn. The time of a tile is proportional to the rows of its group.
double makespan(const std::vector<int64_t>& rows, const std::vector<int64_t>& list, int tiles_per_group, int clusters) {
  std::vector<int64_t> busy(clusters);
  size_t next = 0;
  for (const int64_t e : list) {
    const int64_t length = rows[e];
    for (int i = 0; length > 0 && i < tiles_per_group; ++i) busy[next++ % busy.size()] += length;
  }
  const auto all = static_cast<double>(std::accumulate(busy.begin(), busy.end(), int64_t{0}));
  return static_cast<double>(std::ranges::max(busy)) * clusters / all;
}

// Tests the weight gradients [32, 2048, 1024] of bench-gpu on an H100, whose 66 pairs of multiprocessors compute tiles
// of 256 x 256.
TEST(GroupOrder, BalancesFourHotExpertsOfThirtyTwo) {
  constexpr int experts = 32, tiles = 2048 / 256 * (1024 / 256), clusters = 66;
  std::vector<int64_t> rows(experts, 1092), unsorted(experts);
  for (const size_t hot : {5u, 13u, 18u, 30u}) rows[hot] *= 8;
  std::iota(unsorted.begin(), unsorted.end(), 0);
  EXPECT_GT(makespan(rows, unsorted, tiles, clusters), 1.3);
  EXPECT_LT(makespan(rows, listed(GroupedPass::weight_gradient, rows), tiles, clusters), 1.1);
}

}  // namespace
}  // namespace hexad::kernels::cuda
