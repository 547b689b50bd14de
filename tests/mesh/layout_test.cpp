#include "parallel/mesh/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "framework/base/error.h"

namespace hexad::mesh {
namespace {

constexpr Axis axes[] = {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp};
const Placement dense{.view = MeshView::dense}, expert{.view = MeshView::expert};

// Calls f for the layout of every legal combination of axis sizes of `world` ranks.
template <class F>
void for_each_layout(int world, F f) {
  for (int pp = 1; pp <= world; ++pp)
    for (int cp = 1; cp <= world; ++cp)
      for (int tp = 1; tp <= world; ++tp) {
        if (world % (pp * cp * tp)) continue;
        const int stage = world / pp;
        for (int etp = 1; etp <= stage; ++etp)
          for (int ep = 1; ep <= stage; ++ep)
            if (stage % (etp * ep) == 0) f(Layout({.pp = pp, .cp = cp, .tp = tp, .ep = ep, .etp = etp}, world));
      }
}

// Orders of axes. Every axis is the first one of at least one order. Some orders are illegal with several stages.
constexpr const char* orders[] = {"tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp", "cp-ep-tp-dp-pp", "ep-tp-dp-cp-pp",
                                  "pp-dp-ep-cp-tp", "dp-cp-pp-tp-ep", "tp-pp-dp-ep-cp", "ep-cp-tp-pp-dp"};

// Calls f for every layout of for_each_layout(), without an order of axes and with each legal order of `orders`.
template <class F>
void for_each_ordered_layout(int world, F f) {
  for_each_layout(world, [&](const Layout& m) {
    f(m);
    for (const char* order : orders) {
      try {
        f(Layout({.pp = m.size(Axis::pp),
                  .cp = m.size(Axis::cp),
                  .tp = m.size(Axis::tp),
                  .ep = m.size(Axis::ep),
                  .etp = m.size(Axis::etp),
                  .order = order},
                 world));
      } catch (const IllegalLayout& e) {
        ASSERT_EQ(e.key(), "parallel.order");
        ASSERT_GT(m.size(Axis::pp), 1);
      }
    }
  });
}

TEST(Layout, EveryRankIsInExactlyOneGroupOfEachAxis) {
  for (int world : {1, 2, 4, 6, 8, 12})
    for_each_layout(world, [&](const Layout& m) {
      for (Axis axis : axes) {
        std::set<std::vector<int>> groups;
        for (int r = 0; r < world; ++r) {
          const auto group = m.members(axis, r);
          ASSERT_EQ(static_cast<int>(group.size()), m.size(axis)) << m.to_string();
          ASSERT_EQ(group[m.coordinate(axis, r)], r) << m.to_string();
          groups.insert(group);
        }
        // Each rank is in its group, and the sizes of the different groups add up to the number of ranks. Therefore, no
        // two groups share a rank.
        ASSERT_EQ(static_cast<int>(groups.size()) * m.size(axis), world) << m.to_string() << ", " << name_of(axis);
      }
    });
}

// Naive twin of Layout that scans all ranks' coordinates for each query.
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

TEST(Layout, PlacesAndRanksAreInverse) {
  for (int world : {1, 2, 4, 6, 8, 12})
    for_each_ordered_layout(world, [&](const Layout& m) {
      for (int r = 0; r < world; ++r) {
        const auto at = [&](Axis axis) { return m.coordinate(axis, r); };
        ASSERT_EQ(m.rank_at(DensePlace{.pp = at(Axis::pp), .dp = at(Axis::dp), .cp = at(Axis::cp), .tp = at(Axis::tp)}),
                  r)
            << m.to_string();
        ASSERT_EQ(
            m.rank_at(ExpertPlace{.pp = at(Axis::pp), .edp = at(Axis::edp), .ep = at(Axis::ep), .etp = at(Axis::etp)}),
            r)
            << m.to_string();
      }
    });
}

TEST(Layout, EtpGroupsInsideTpGroupsAreRecognised) {
  for (int world : {4, 6, 8, 12})
    for_each_ordered_layout(world, [&](const Layout& m) {
      bool inside = true;
      for (int r = 0; r < world; ++r) {
        std::set<int> tokens;
        for (int t : m.members(Axis::tp, r)) tokens.insert(t);
        for (int e : m.members(Axis::etp, r)) inside &= tokens.contains(e);
      }
      ASSERT_EQ(m.etp_inside_tp(), inside) << m.to_string();
    });
}

// If each query scanned all ranks, this test would be slow: it would read more than 10^9 coordinates.
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

TEST(Layout, EveryGroupIsVisitedOnceByItsLowestRank) {
  const Layout m({.dp = 4, .tp = 2, .ep = 4, .etp = 1, .order = "tp-cp-dp-ep-pp"}, 8);
  std::vector<std::vector<int>> groups;
  int asked = 0;
  for_each_group(
      8, [&](int rank) { return ++asked, m.members(Axis::ep, rank); },
      [&](const std::vector<int>& ranks) { groups.push_back(ranks); });
  EXPECT_EQ(groups, (std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(asked, 2);
}

TEST(Layout, EveryFactorisationOfBothViewsIsLegal) {
  const auto count = [](int world) {
    int layouts = 0;
    for_each_layout(world, [&](const Layout&) { ++layouts; });
    return layouts;
  };
  EXPECT_EQ(count(2), 10);
  EXPECT_EQ(count(4), 46);
  EXPECT_EQ(count(6), 100);
  EXPECT_EQ(count(8), 146);
  EXPECT_EQ(count(12), 460);
}

TEST(Layout, TheTwoViewsCoverTheSameStage) {
  for (int world : {4, 6, 8, 12})
    for_each_layout(world, [&](const Layout& m) {
      EXPECT_EQ(m.size(Axis::dp) * m.size(Axis::cp) * m.size(Axis::tp),
                m.size(Axis::edp) * m.size(Axis::ep) * m.size(Axis::etp));
      std::set<std::array<int, 4>> dense_places, expert_places;
      for (int r = 0; r < world; ++r) {
        const auto at = [&](Axis a) { return m.coordinate(a, r); };
        dense_places.insert({at(Axis::pp), at(Axis::dp), at(Axis::cp), at(Axis::tp)});
        expert_places.insert({at(Axis::pp), at(Axis::edp), at(Axis::ep), at(Axis::etp)});
      }
      EXPECT_EQ(static_cast<int>(dense_places.size()), world);
      EXPECT_EQ(static_cast<int>(expert_places.size()), world);
    });
}

TEST(Layout, GradientsAreSummedOverDataRanks) {
  const Layout m({.pp = 2, .dp = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 1}, 16);
  EXPECT_EQ(m.reducers(dense, 0).size(), 4u);  // dp 2 x cp 2
  EXPECT_EQ(m.reducers(expert, 0).size(), 2u);
  for (int r : m.reducers(dense, 5)) {
    EXPECT_EQ(m.coordinate(Axis::tp, r), m.coordinate(Axis::tp, 5));
    EXPECT_EQ(m.coordinate(Axis::pp, r), m.coordinate(Axis::pp, 5));
  }
}

TEST(Layout, PartialGradientsAreAlsoSummedOverTheTensorAxis) {
  const Layout m({.pp = 2, .dp = 2, .cp = 2, .tp = 2, .ep = 2, .etp = 4}, 16);
  EXPECT_EQ(m.reducers({.view = MeshView::dense, .partial = {Axis::tp}}, 0).size(), 8u);
  EXPECT_EQ(m.reducers({.view = MeshView::expert, .partial = {Axis::etp}}, 0).size(), 4u);
  EXPECT_EQ(m.holders(dense, 0), m.reducers({.view = MeshView::dense, .partial = {Axis::tp}}, 0));
}

TEST(Layout, GradientsOfSharedPiecesAreSummedOverTensorRanks) {
  const Layout m({.dp = 2, .tp = 4}, 8);
  const auto heads = [](int t) {
    return Placement{.view = MeshView::dense, .shards = {{Axis::tp, 0, 2, t / 2}}, .partial = {Axis::tp}};
  };
  EXPECT_EQ(m.reducers(heads(0), 0), (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(m.reducers(heads(3), 3), (std::vector{2, 3, 6, 7}));
  EXPECT_TRUE(m.first_holder(heads(0), 0));
  EXPECT_FALSE(m.first_holder(heads(1), 1));
  EXPECT_TRUE(m.first_holder(heads(2), 2));
}

TEST(Layout, TiedEmbeddingIsSummedOverTheFirstAndTheLastStage) {
  const Layout m({.pp = 3, .tp = 2}, 6);
  const auto tied = [](int t) {
    return Placement{.view = MeshView::dense, .shards = {{Axis::tp, 0, 2, t}}, .partial = {Axis::pp}};
  };
  EXPECT_EQ(m.reducers(tied(1), 1), (std::vector{1, 5}));
  EXPECT_EQ(m.reducers(tied(1), 5), (std::vector{1, 5}));
  EXPECT_EQ(m.reducers(tied(1), 3), (std::vector{3}));
}

TEST(Layout, EveryPieceHasOneFirstHolderInEveryLayout) {
  for (int world : {4, 6, 8})
    for_each_layout(world, [&](const Layout& m) {
      int stages = 0, experts = 0;
      for (int r = 0; r < world; ++r) {
        stages += m.first_holder(dense, r);
        const Placement piece{.view = MeshView::expert,
                              .shards = {{Axis::ep, 0, m.size(Axis::ep), m.coordinate(Axis::ep, r)},
                                         {Axis::etp, 1, m.size(Axis::etp), m.coordinate(Axis::etp, r)}}};
        experts += m.first_holder(piece, r);
      }
      ASSERT_EQ(stages, m.size(Axis::pp)) << m.to_string();
      ASSERT_EQ(experts, m.size(Axis::pp) * m.size(Axis::ep) * m.size(Axis::etp)) << m.to_string();
    });
}

TEST(Layout, RanksOfAMicroBatchAreOrderedByContextThenTensor) {
  const Layout m({.dp = 2, .cp = 2, .tp = 2}, 8);
  for (int r = 0; r < 8; ++r) {
    const auto ranks = m.token_sharers(r);
    ASSERT_EQ(ranks.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(m.coordinate(Axis::tp, ranks[i]), i % 2);
      EXPECT_EQ(m.coordinate(Axis::cp, ranks[i]), i / 2);
      EXPECT_EQ(m.coordinate(Axis::dp, ranks[i]), m.coordinate(Axis::dp, r));
    }
  }
}

TEST(Layout, TensorRanksAreNeighbours) {
  const Layout m({.pp = 2, .dp = 2, .tp = 2}, 8);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(m.coordinate(Axis::tp, r), r % 2);
}

TEST(Layout, HorizontalExpansionPutsExpertsAlongData) {
  const Layout m({.dp = 4, .cp = 2, .ep = 4, .expansion = Expansion::horizontal}, 8);
  for (int r = 0; r < 8; ++r)
    for (int peer : m.members(Axis::ep, r)) EXPECT_EQ(m.coordinate(Axis::cp, peer), m.coordinate(Axis::cp, r));
  EXPECT_EQ(m.members(Axis::ep, 0), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(m.members(Axis::cp, 0), (std::vector{0, 4}));
}

TEST(Layout, VerticalExpansionPutsExpertsAlongContexts) {
  const Layout m({.dp = 2, .cp = 4, .ep = 4, .expansion = Expansion::vertical}, 8);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(m.members(Axis::ep, r), m.members(Axis::cp, r));
}

TEST(Layout, AutomaticExpansionIsVerticalIfCpIsAtLeastEpOrEpDoesNotFitAlongDp) {
  const auto chosen = [](int dp, int cp, int ep) {
    return Layout({.dp = dp, .cp = cp, .ep = ep}, dp * cp).expansion();
  };
  EXPECT_EQ(chosen(2, 4, 4), Expansion::vertical);
  EXPECT_EQ(chosen(4, 2, 4), Expansion::horizontal);
  EXPECT_EQ(chosen(2, 2, 4), Expansion::vertical);  // ep 4 does not fit along dp 2
}

TEST(Layout, DataAndExpertParallelismShareTheRanks) {
  const Layout m({.ep = 2}, 4);
  EXPECT_EQ(m.to_string(), "pp 1 x dp 4 x cp 1 x tp 1 | pp 1 x edp 2 x ep 2 x etp 1 (horizontal)");
  EXPECT_EQ(m.members(Axis::ep, 3), (std::vector{2, 3}));
  EXPECT_EQ(m.members(Axis::edp, 3), (std::vector{1, 3}));
  EXPECT_EQ(m.members(Axis::dp, 3), (std::vector{0, 1, 2, 3}));
}

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

// MoNTA, Table 1, first row: on two nodes of eight GPUs, experts across nodes and whole experts on each tp rank.
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

std::string refusal(const Sizes& sizes, int world) {
  try {
    return Layout(sizes, world).to_string();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
}

TEST(Layout, RefusalsShowTheArithmeticAndTheNearestLegalValues) {
  EXPECT_EQ(refusal({.ep = 3}, 4),
            "parallel.ep (3) x etp (1) must divide the 4 ranks of a stage (dp 4 x cp 1 x tp 1); nearest ep: 2, 4");
  EXPECT_EQ(refusal({.ep = 8}, 4),
            "parallel.ep (8) x etp (1) must divide the 4 ranks of a stage (dp 4 x cp 1 x tp 1); nearest ep: 4");
  EXPECT_EQ(refusal({.cp = 3}, 4),
            "parallel has pp 1 x cp 3 x tp 1 = 3 ranks, which must divide the number of ranks (4); nearest: 3, 6 "
            "ranks, or 2, 4 for the "
            "product");
  EXPECT_EQ(refusal({.pp = 2, .tp = 4}, 4),
            "parallel has pp 2 x cp 1 x tp 4 = 8 ranks, which must divide the number of ranks (4); nearest: 8 ranks, "
            "or 4 for the product");
  EXPECT_EQ(refusal({.dp = 3, .tp = 2}, 4),
            "parallel.dp (3) x pp 1 x cp 1 x tp 2 needs 6 ranks, but there are 4; legal dp: 2");
  EXPECT_EQ(refusal({.etp = 3}, 4),
            "parallel.etp (3) must divide the 4 ranks of a stage (dp 4 x cp 1 x tp 1); nearest: 2, 4");
  EXPECT_EQ(
      refusal({.cp = 2, .ep = 4, .expansion = Expansion::horizontal}, 4),
      "parallel.cp_expansion (horizontal) needs ep x etp = inner x tp with inner a divisor of dp: 4 x 1 = inner x 1 "
      "with dp 2; use vertical or auto");
  EXPECT_EQ(refusal({.tp = 0}, 4), "parallel.tp (0) must be at least 1");
  EXPECT_EQ(refusal({.dp = -1}, 4), "parallel.dp (-1) must be at least 1, or 0 (computed from the number of ranks)");
  EXPECT_EQ(refusal({.etp = -1}, 4), "parallel.etp (-1) must be at least 1, or 0 (equal to tp)");
  EXPECT_EQ(refusal({.pp = 65536, .cp = 65536}, 4),
            "parallel has pp 65536 x cp 65536 x tp 1 = 4294967296 ranks, which must divide the number of ranks (4); "
            "nearest: 4294967296 "
            "ranks, or 4 for the product");
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
  EXPECT_EQ(
      refusal({.pp = 2, .tp = 2, .ep = 2, .etp = 1, .order = "tp-pp-cp-ep-dp"}, 8),
      "parallel.order (tp-pp-cp-ep-dp) puts pp after tp 2 = 2 ranks of dense layers, but after etp 1 = 1 ranks of "
      "experts, so that a rank would be on two stages; the nearest legal order is pp-tp-cp-ep-dp");
  EXPECT_EQ(refusal({.pp = 2, .cp = 2, .ep = 2, .order = "cp-tp-pp-ep-dp"}, 8),
            "parallel.order (cp-tp-pp-ep-dp) puts pp after cp 2 x tp 1 = 2 ranks of dense layers, but after etp 1 = 1 "
            "ranks of experts, so that a rank would be on two stages; the nearest legal order is cp-tp-ep-pp-dp");
}

TEST(Order, ExcludesAnExpansion) {
  EXPECT_EQ(
      refusal({.cp = 2, .expansion = Expansion::vertical, .order = "tp-cp-ep-dp-pp"}, 4),
      "parallel.cp_expansion (vertical) must be auto, because parallel.order (tp-cp-ep-dp-pp) places the experts");
}

}  // namespace
}  // namespace hexad::mesh
