#include "parallel/mesh/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/mesh/every_layout.h"

namespace hexad::mesh {
namespace {

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

TEST(Layout, CoordinatesDetermineTheRank) {
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
            "parallel.dp (3) x pp 1 x cp 1 x tp 2 needs 6 ranks, but the number of ranks is 4; legal dp: 2");
  EXPECT_EQ(refusal({.etp = 3}, 4),
            "parallel.etp (3) must divide the 4 ranks of a stage (dp 4 x cp 1 x tp 1); nearest: 2, 4");
  EXPECT_EQ(refusal({.cp = 2, .ep = 4, .expansion = Expansion::horizontal}, 4),
            "parallel.cp_expansion (horizontal) needs ep x etp (4) to divide tp (1), or to be tp times a divisor of "
            "dp (2); use vertical or auto");
  EXPECT_EQ(refusal({.tp = 0}, 4), "parallel.tp (0) must be at least 1");
  EXPECT_EQ(refusal({.dp = -1}, 4), "parallel.dp (-1) must be at least 1, or 0 (computed from the number of ranks)");
  EXPECT_EQ(refusal({.etp = -1}, 4), "parallel.etp (-1) must be at least 1, or 0 (equal to tp)");
  EXPECT_EQ(refusal({.pp = 65536, .cp = 65536}, 4),
            "parallel has pp 65536 x cp 65536 x tp 1 = 4294967296 ranks, which must divide the number of ranks (4); "
            "nearest: 4294967296 "
            "ranks, or 4 for the product");
}

}  // namespace
}  // namespace hexad::mesh
