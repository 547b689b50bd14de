// Order of the tiles of a grouped weight gradient. Multiprocessors that take tiles in this order finish almost as early
// as possible, whatever the row counts of the experts.
#include "framework/kernels/cuda/products/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace hexad::kernels::cuda {
namespace {

using Rows = std::vector<int64_t>;

struct Load {
  std::string name;
  Rows rows;  // rows of each expert
  int64_t down, across;
  int multiprocessors;
};
void PrintTo(const Load& l, std::ostream* out) { *out << l.name; }

Rows offsets_of(const Rows& rows) {
  Rows offsets{0};
  for (const int64_t r : rows) offsets.push_back(offsets.back() + r);
  return offsets;
}

// Returns the time at which the last multiprocessor finishes, if the next free multiprocessor takes the next tile. The
// time of a tile is the number of rows of its group. `groups` are the groups of the tickets.
int64_t makespan(const Load& l, const Rows& groups) {
  std::priority_queue<int64_t, Rows, std::greater<>> free(std::greater<>(), Rows(l.multiprocessors, 0));
  int64_t last = 0;
  for (const int64_t group : groups) {
    const int64_t end = free.top() + l.rows[group];
    free.pop(), free.push(end);
    last = std::max(last, end);
  }
  return last;
}

// Returns the groups in the order of their tickets. An entry is -1 if no group has this place.
Rows order_of(const Rows& rows) {
  const Rows offsets = offsets_of(rows);
  const auto groups = static_cast<int64_t>(rows.size());
  Rows order(rows.size(), -1);
  for (int64_t e = 0; e < groups; ++e) order_group(order.data(), e, offsets.data(), groups);
  return order;
}

// Returns the group of each ticket.
Rows groups_of_tickets(const Load& l) {
  const Rows order = order_of(l.rows);
  const WeightTiles tiles{order.data(), static_cast<int64_t>(order.size()), l.down, l.across};
  Rows groups;
  for (int64_t ticket = 0; ticket < tiles.count(); ++ticket) groups.push_back(tiles.tile(ticket).group);
  return groups;
}

Rows groups_by_expert(const Load& l) {
  Rows groups;
  for (size_t e = 0; e < l.rows.size(); ++e) groups.insert(groups.end(), l.down * l.across, static_cast<int64_t>(e));
  return groups;
}

// Returns a lower bound of every makespan.
double bound(const Load& l) {
  const int64_t all = std::accumulate(l.rows.begin(), l.rows.end(), int64_t{0}) * l.down * l.across;
  return std::max(static_cast<double>(all) / l.multiprocessors, static_cast<double>(std::ranges::max(l.rows)));
}

// Returns the rows of experts whose loads follow Zipf's law with exponent 1.2, in a fixed order that is not sorted.
Rows zipf(size_t experts, double rows) {
  double sum = 0;
  for (size_t e = 1; e <= experts; ++e) sum += std::pow(e, -1.2);
  Rows all(experts);
  for (size_t e = 0; e < experts; ++e)
    all[e * 7 % experts] = static_cast<int64_t>(rows * std::pow(experts - e, -1.2) / sum);
  return all;
}

Rows with_last(Rows rows, int64_t last) {
  rows.back() = last;
  return rows;
}

Rows every(size_t experts, size_t step, int64_t rows) {
  Rows all(experts);
  for (size_t e = 0; e < experts; e += step) all[e] = rows;
  return all;
}

class TileOrder : public testing::TestWithParam<Load> {};

TEST_P(TileOrder, FinishesWithinATenthOfTheLowerBound) {
  EXPECT_LE(static_cast<double>(makespan(GetParam(), groups_of_tickets(GetParam()))), 1.1 * bound(GetParam()));
}

// The test allows a thousandth: if there are many more tiles than multiprocessors, the order by expert is sometimes
// slightly faster by chance.
TEST_P(TileOrder, IsAtMostAThousandthSlowerThanTheOrderByExpert) {
  EXPECT_LE(static_cast<double>(makespan(GetParam(), groups_of_tickets(GetParam()))),
            1.001 * static_cast<double>(makespan(GetParam(), groups_by_expert(GetParam()))));
}

// Weight gradients [experts, 2048, 1024]: with tiles of 64 x 64 on 132 multiprocessors, and with tiles of 256 x 256 on
// 66 pairs of multiprocessors.
INSTANTIATE_TEST_SUITE_P(
    , TileOrder,
    testing::Values(
        Load{"Zipf", zipf(64, 65536), 32, 16, 132}, Load{"ZipfOfLargeTiles", zipf(64, 65536), 8, 4, 66},
        Load{"HotExpertComesLast", with_last(Rows(32, 512), 16384), 8, 4, 66},
        Load{"FourHotExperts", {1092, 1092, 8736, 1092, 1092, 8736, 1092, 1092, 8736, 1092, 1092, 8736}, 8, 4, 66},
        Load{"EmptyExperts", every(256, 5, 400), 32, 16, 132}, Load{"OneRow", with_last(Rows(32, 0), 1), 32, 16, 132},
        Load{"MoreGroupsThanThreadsOfABlock", zipf(1500, 262144), 3, 5, 132},
        Load{"OneTileForEachExpert", zipf(1500, 262144), 1, 1, 132}),
    [](const auto& l) { return l.param.name; });

TEST(TilesInOrderOfExperts, FinishLateIfTheHotExpertComesLast) {
  const Load hot{"", with_last(Rows(32, 512), 16384), 8, 4, 66};
  EXPECT_GT(static_cast<double>(makespan(hot, groups_by_expert(hot))), 1.4 * bound(hot));
}

TEST(Tickets, NameEachTileOnce) {
  const Rows order = order_of({3, 0, 9, 3});
  EXPECT_EQ(order, (Rows{2, 0, 3, 1}));
  const WeightTiles tiles{order.data(), 4, 3, 2};
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
  for (int64_t ticket = 0; ticket < tiles.count(); ++ticket) {
    const WeightTile tile = tiles.tile(ticket);
    EXPECT_TRUE(tile.group >= 0 && tile.group < 4 && tile.row < 3 && tile.column < 2) << "ticket " << ticket;
    seen.insert({tile.group, tile.row, tile.column});
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), tiles.count());
}

}  // namespace
}  // namespace hexad::kernels::cuda
