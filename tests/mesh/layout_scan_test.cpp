// Compares the groups of a layout with groups found by a scan of all ranks.
#include "parallel/mesh/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/mesh/every_layout.h"

namespace hexad::mesh {
namespace {

// Naive version of Layout, which scans the coordinates of all ranks for each query.
class Scan {
 public:
  explicit Scan(const Layout& m) : m_(m), at_(static_cast<size_t>(m.world())) {
    for (int r = 0; r < m.world(); ++r)
      for (Axis axis : axes) at_[r][base::ordinal(axis)] = m.coordinate(axis, r);
  }

  std::vector<int> members(Axis axis, int rank) const {
    const bool in_dense = axis == Axis::pp || axis == Axis::dp || axis == Axis::cp || axis == Axis::tp;
    const std::vector<Axis> view = in_dense ? std::vector{Axis::pp, Axis::dp, Axis::cp, Axis::tp}
                                            : std::vector{Axis::pp, Axis::edp, Axis::ep, Axis::etp};
    auto ranks = where([&](int r) {
      return std::all_of(view.begin(), view.end(), [&](Axis a) { return a == axis || same(a, r, rank); });
    });
    std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return at(axis, a) < at(axis, b); });
    return ranks;
  }

  std::vector<int> replica(Axis replicas, Axis major, Axis minor, int rank) const {
    auto ranks = where([&](int r) { return same(Axis::pp, r, rank) && same(replicas, r, rank); });
    std::sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return std::tuple(at(major, a), at(minor, a)) < std::tuple(at(major, b), at(minor, b));
    });
    return ranks;
  }

  std::vector<int> sharers(const Placement& p, int rank, bool copies) const {
    const bool in_dense = p.view == MeshView::dense;
    const Axis tensor = in_dense ? Axis::tp : Axis::etp;
    const auto partial = [&](Axis axis) {
      return std::find(p.partial.begin(), p.partial.end(), axis) != p.partial.end();
    };
    const auto outer = [&](int r) { return at(Axis::pp, r) == 0 || at(Axis::pp, r) == m_.size(Axis::pp) - 1; };
    const auto same_piece = [&](int r) {
      return std::all_of(p.shards.begin(), p.shards.end(), [&](const base::Shard& s) {
        const auto piece = [&](int of) { return at(tensor, of) * s.parts / m_.size(tensor); };
        return s.axis != tensor || piece(r) == piece(rank);
      });
    };
    return where([&](int r) {
      return (same(Axis::pp, r, rank) || (partial(Axis::pp) && outer(r) && outer(rank))) &&
             (copies || partial(tensor) || same(tensor, r, rank)) && same_piece(r) &&
             (in_dense || same(Axis::ep, r, rank));
    });
  }

 private:
  int at(Axis axis, int rank) const { return at_[rank][base::ordinal(axis)]; }
  bool same(Axis axis, int a, int b) const { return at(axis, a) == at(axis, b); }
  template <class F>
  std::vector<int> where(F f) const {
    std::vector<int> ranks;
    for (int r = 0; r < m_.world(); ++r)
      if (f(r)) ranks.push_back(r);
    return ranks;
  }

  const Layout& m_;
  std::vector<std::array<int, axis_count>> at_;  // by rank
};

// Returns placements of every kind that models have, and pieces that several tensor ranks share.
std::vector<Placement> placements(const Layout& m, int rank) {
  std::vector<Placement> all{{.view = MeshView::dense},
                             {.view = MeshView::dense, .partial = {Axis::tp}},
                             {.view = MeshView::dense, .partial = {Axis::pp}},
                             {.view = MeshView::expert},
                             {.view = MeshView::expert, .partial = {Axis::etp}}};
  const auto shard = [&](Axis axis, int dim, int parts) {
    return base::Shard{axis, dim, parts, m.coordinate(axis, rank) * parts / m.size(axis)};
  };
  const int tp = m.size(Axis::tp), ep = m.size(Axis::ep), etp = m.size(Axis::etp);
  all.push_back({.view = MeshView::dense, .shards = {shard(Axis::tp, 0, tp)}, .partial = {Axis::pp}});
  all.push_back({.view = MeshView::expert, .shards = {shard(Axis::ep, 0, ep), shard(Axis::etp, 2, etp)}});
  for (int parts = 1; parts < tp; ++parts)
    if (tp % parts == 0)
      all.push_back({.view = MeshView::dense, .shards = {shard(Axis::tp, 0, parts)}, .partial = {Axis::tp}});
  return all;
}

void expect_like_scan(const Layout& m, int rank, const Scan& scan) {
  for (Axis axis : axes) ASSERT_EQ(m.members(axis, rank), scan.members(axis, rank)) << m.to_string();
  ASSERT_EQ(m.token_sharers(rank), scan.replica(Axis::dp, Axis::cp, Axis::tp, rank)) << m.to_string();
  ASSERT_EQ(m.expert_sharers(rank), scan.replica(Axis::edp, Axis::ep, Axis::etp, rank)) << m.to_string();
  const std::vector<Placement> all = placements(m, rank);
  for (const Placement& a : all)
    for (const Placement& b : all)
      ASSERT_EQ(m.same_reducers(a, b, rank), scan.sharers(a, rank, false) == scan.sharers(b, rank, false))
          << m.to_string();
  for (const Placement& p : all) {
    const auto reducers = scan.sharers(p, rank, false), holders = scan.sharers(p, rank, true);
    ASSERT_EQ(m.reducers(p, rank), reducers) << m.to_string();
    ASSERT_EQ(m.holders(p, rank), holders) << m.to_string();
    ASSERT_EQ(m.first_reducer(p, rank), reducers.front()) << m.to_string();
    ASSERT_EQ(m.first_holder(p, rank), holders.front() == rank) << m.to_string();
  }
}

TEST(Layout, GroupsMatchAScanOfAllRanksUnderSeveralOrders) {
  for (int world : {1, 2, 4, 6, 8, 12})
    for_each_ordered_layout(world, [&](const Layout& m) {
      const Scan scan(m);
      for (int rank = 0; rank < world; ++rank) expect_like_scan(m, rank, scan);
    });
}

TEST(Layout, GroupsMatchAScanOfAllRanksUpTo48) {
  for (int world = 1; world <= 48; ++world)
    for_each_layout(world, [&](const Layout& m) {
      const Scan scan(m);
      for (int rank : {0, world / 3, world - 1}) expect_like_scan(m, rank, scan);
    });
}

// This test would read more than 10^9 coordinates if each query scanned all ranks.
TEST(Layout, QueriesOf65536RanksGiveGroupsOfTheRightSizes) {
  const int world = 65536;
  for (const char* order : {"", "tp-cp-ep-dp-pp", "pp-dp-ep-cp-tp"}) {
    const Layout m({.pp = 8, .cp = 4, .tp = 8, .ep = 64, .etp = 2, .order = order}, world);
    int first_holders = 0;
    for (int i = 0; i < 1000; ++i) {
      const int rank = i * 65;
      for (Axis axis : axes) {
        const auto ranks = m.members(axis, rank);
        ASSERT_EQ(static_cast<int>(ranks.size()), m.size(axis));
        ASSERT_EQ(ranks[m.coordinate(axis, rank)], rank);
      }
      ASSERT_EQ(m.token_sharers(rank).size(), 4u * 8);
      ASSERT_EQ(m.expert_sharers(rank).size(), 64u * 2);
      ASSERT_EQ(m.reducers(dense, rank).size(), 256u * 4);
      ASSERT_EQ(m.reducers(expert, rank).size(), 64u);
      for (const Placement& p : placements(m, rank)) {
        ASSERT_LE(m.first_reducer(p, rank), rank);
        first_holders += m.first_holder(p, rank);
      }
    }
    EXPECT_GT(first_holders, 0) << order;
  }
}

}  // namespace
}  // namespace hexad::mesh
