#include "parallel/mesh/mesh.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"

namespace hexad::mesh {
namespace {

std::vector<int> members_of(const ProcessGroup& group, int rank) {
  device::DeviceContext context;
  const int64_t mine[] = {rank};
  const auto ranks = group.all_gather_values(mine, context);
  return {ranks.begin(), ranks.end()};
}

TEST(Mesh, GroupsMatchTheLayout) {
  for (const Sizes& sizes : {Sizes{.ep = 2}, Sizes{.ep = 4}, Sizes{.pp = 2, .ep = 2}, Sizes{.cp = 2, .ep = 4},
                             Sizes{.tp = 2, .ep = 2, .etp = 1}, Sizes{.cp = 2, .tp = 2, .ep = 4, .etp = 1},
                             Sizes{.cp = 2, .tp = 2, .ep = 2, .etp = 2, .order = "cp-tp-dp-ep-pp"},
                             Sizes{.pp = 2, .tp = 2, .ep = 2, .etp = 1, .order = "pp-dp-ep-cp-tp"}})
    comm::with_ranks(4, [&](const ProcessGroup& world) {
      const Mesh mesh(world, sizes);
      for (int a = 0; a < axis_count; ++a) {
        const Axis axis = static_cast<Axis>(a);
        EXPECT_EQ(members_of(mesh[axis], world.rank()), mesh.layout().members(axis, world.rank()));
        EXPECT_EQ(mesh[axis].rank(), mesh.coordinate(axis));
        EXPECT_EQ(mesh[axis].size(), mesh.size(axis));
        EXPECT_EQ(mesh[axis].name(), name_of(axis));
      }
      EXPECT_EQ(members_of(mesh.tokens(), world.rank()), mesh.layout().token_sharers(world.rank()));
      EXPECT_EQ(members_of(mesh.experts(), world.rank()), mesh.layout().expert_sharers(world.rank()));
      for (const Placement& p : {Placement{.view = MeshView::dense}, Placement{.view = MeshView::expert},
                                 Placement{.view = MeshView::dense, .partial = {Axis::tp}},
                                 Placement{.view = MeshView::expert, .partial = {Axis::etp}}})
        EXPECT_EQ(members_of(mesh.reducers(p), world.rank()), mesh.layout().reducers(p, world.rank()));
    });
}

TEST(Mesh, GroupsOfExpertsHaveTwoLevelsIfTheirRanksAreOnSeveralNodes) {
  comm::with_ranks(8,
                   [](const ProcessGroup& world) {
                     const int r = world.rank();
                     const Mesh whole(world, {.ep = 8});
                     ASSERT_TRUE(whole.ep_nodes());
                     EXPECT_EQ(members_of(*whole.ep_nodes()->inside, r),
                               r < 4 ? (std::vector{0, 1, 2, 3}) : (std::vector{4, 5, 6, 7}));
                     EXPECT_EQ(members_of(*whole.ep_nodes()->across, r), (std::vector{r % 4, r % 4 + 4}));
                     EXPECT_EQ(whole.ep_nodes()->inside->traffic(), comm::TrafficClass::ep);
                     EXPECT_FALSE(whole.ep_nodes()->inside->crosses_nodes());
                     EXPECT_TRUE(whole.ep_nodes()->across->crosses_nodes());
                     EXPECT_EQ(whole.experts_nodes(), whole.ep_nodes()) << "both groups have the same ranks";
                     const Mesh one_node(world, {.ep = 4});
                     EXPECT_FALSE(one_node.ep_nodes());
                     const Mesh one_rank_a_node(world, {.ep = 2, .etp = 4});
                     EXPECT_FALSE(one_rank_a_node.ep_nodes());
                     EXPECT_TRUE(one_rank_a_node.experts_nodes());
                   },
                   {.node_of_rank = {0, 0, 0, 0, 1, 1, 1, 1}});
}

TEST(Mesh, NamesTheFirstGroupThatCannotBeDividedIntoTwoLevels) {
  const auto unfit = [](std::vector<int> nodes) {
    std::optional<UnfitGroup> found;
    const int ranks = static_cast<int>(nodes.size());
    comm::with_ranks(ranks,
                     [&](const ProcessGroup& world) {
                       const Mesh mesh(world, {.ep = 4});
                       EXPECT_EQ(mesh.unfit_ep_group().has_value(), mesh.unfit_experts_group().has_value());
                       if (world.rank() == ranks - 1) found = mesh.unfit_ep_group();
                     },
                     {.node_of_rank = std::move(nodes)});
    return found;
  };
  EXPECT_FALSE(unfit({0, 0, 1, 1, 2, 2, 3, 3}));
  const auto uneven = unfit({0, 0, 1, 1, 2, 2, 2, 3});
  ASSERT_TRUE(uneven);
  EXPECT_EQ(uneven->ranks, (std::vector{4, 5, 6, 7}));
  EXPECT_TRUE(uneven->unlike_others) << "the first group has two levels, and this group has one, because its nodes "
                                        "have different numbers of its ranks";
  const auto first = unfit({0, 0, 0, 1, 2, 2, 3, 3});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ranks, (std::vector{0, 1, 2, 3}));
  EXPECT_FALSE(first->unlike_others);
}

TEST(Mesh, LanesHaveGroupsOfTheSameRanksOnRequest) {
  comm::with_ranks(4, [](const ProcessGroup& world) {
    const Sizes sizes{.tp = 2, .ep = 2, .etp = 2};
    EXPECT_FALSE(Mesh(world, sizes).lane_groups());
    const Mesh mesh(world, sizes, {}, Posting::lanes);
    const LaneGroups* lanes = mesh.lane_groups();
    ASSERT_TRUE(lanes);
    for (const auto& [own, usual] :
         {std::pair(lanes->ep.get(), &mesh[Axis::ep]), std::pair(lanes->experts.get(), &mesh.experts()),
          std::pair(lanes->tp.get(), &mesh[Axis::tp])}) {
      EXPECT_NE(own, usual);
      EXPECT_EQ(members_of(*own, world.rank()), members_of(*usual, world.rank()));
      EXPECT_EQ(own->rank(), usual->rank());
      EXPECT_EQ(own->traffic(), usual->traffic());
    }
  });
}

TEST(Mesh, TrafficClassesFollowTheAxes) {
  const comm::SelfGroup self;
  const Mesh mesh(self, {});
  EXPECT_EQ(mesh[Axis::ep].traffic(), comm::TrafficClass::ep);
  EXPECT_EQ(mesh[Axis::edp].traffic(), comm::TrafficClass::dp);
  EXPECT_EQ(mesh[Axis::etp].traffic(), comm::TrafficClass::tp);
  EXPECT_EQ(mesh.reducers({.view = MeshView::dense}).traffic(), comm::TrafficClass::dp);
}

TEST(Mesh, OneRankHasOnlyGroupsOfOne) {
  const comm::SelfGroup self;
  const Mesh mesh(self, {});
  for (int a = 0; a < axis_count; ++a) {
    EXPECT_EQ(mesh[static_cast<Axis>(a)].size(), 1);
    EXPECT_EQ(mesh.coordinate(static_cast<Axis>(a)), 0);
  }
}

TEST(Mesh, PiecesHeldByAFewRanksHaveSeparateGroups) {
  comm::with_ranks(8, [](const ProcessGroup& world) {
    const Mesh mesh(world, {.pp = 2, .tp = 4}, {.tensor_pieces = 2, .first_and_last = true});
    const Placement heads{
        .view = MeshView::dense, .shards = {{Axis::tp, 0, 2, mesh.coordinate(Axis::tp) / 2}}, .partial = {Axis::tp}};
    EXPECT_EQ(mesh.reducers(heads).size(), 2);
    const Placement tied{
        .view = MeshView::dense, .shards = {{Axis::tp, 0, 4, mesh.coordinate(Axis::tp)}}, .partial = {Axis::pp}};
    EXPECT_EQ(members_of(mesh.reducers(tied), world.rank()),
              (std::vector<int>{world.rank() % 4, world.rank() % 4 + 4}));
  });
}

TEST(Mesh, PlacementsWithTheSameRanksShareOneGroup) {
  const comm::SelfGroup self;
  const Mesh mesh(self, {});
  EXPECT_EQ(&mesh.reducers({.view = MeshView::dense}), &mesh.reducers({.view = MeshView::expert}));
}

TEST(Mesh, IllegalLayoutIsRefusedOnAllRanks) {
  EXPECT_THROW(comm::with_ranks(2, [](const ProcessGroup& world) { Mesh(world, {.ep = 3}); }), base::Error);
}

}  // namespace
}  // namespace hexad::mesh
