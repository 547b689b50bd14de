// Meshes of many ranks. In their groups of more than BlockSizes::direct_ranks engines, ranks do not send small tensors
// to every other rank.
#include <gtest/gtest.h>

#include "parallel/comm/engine_ranks.h"
#include "parallel/comm/thread_group.h"
#include "parallel/mesh/mesh.h"

namespace hexad::mesh {
namespace {

void expect_groups_of_the_layout(const Mesh& mesh) {
  device::DeviceContext context;
  const int rank = mesh.world().rank();
  const int64_t mine[] = {rank};
  const auto members_of = [&](const ProcessGroup& group) {
    const auto ranks = group.all_gather_values(mine, context);
    return std::vector<int>(ranks.begin(), ranks.end());
  };
  for (int a = 0; a < axis_count; ++a) {
    const Axis axis = static_cast<Axis>(a);
    EXPECT_EQ(members_of(mesh[axis]), mesh.layout().members(axis, rank));
  }
  for (const Placement& p : {Placement{.view = MeshView::dense}, Placement{.view = MeshView::expert},
                             Placement{.view = MeshView::dense, .partial = {Axis::tp}}})
    EXPECT_EQ(members_of(mesh.reducers(p)), mesh.layout().reducers(p, rank));
  EXPECT_EQ(mesh.world().all_reduce_value(rank, comm::Reduce::max, context), mesh.world().size() - 1);
}

TEST(ManyRanks, MakeAMeshOf64Engines) {
  comm::EngineRanks eight_nodes;
  for (int r = 0; r < 64; ++r) eight_nodes.node_of_rank.push_back(r / 8);
  comm::with_engine_ranks(
      64,
      [](const ProcessGroup& world) {
        const Mesh mesh(world, {.pp = 2, .tp = 2, .ep = 32, .etp = 1});
        expect_groups_of_the_layout(mesh);
        EXPECT_TRUE(mesh.ep_nodes());
        EXPECT_FALSE(mesh.unfit_ep_group());
      },
      eight_nodes);
}

TEST(ManyRanks, MakeAMeshOf1024Threads) {
  comm::with_ranks(1024, [](const ProcessGroup& world) {
    const Mesh mesh(world, {.pp = 8, .tp = 8, .ep = 16, .etp = 1});
    for (int a = 0; a < axis_count; ++a) {
      const Axis axis = static_cast<Axis>(a);
      EXPECT_EQ(mesh[axis].size(), mesh.size(axis));
      EXPECT_EQ(mesh[axis].rank(), mesh.coordinate(axis));
    }
  });
}

}  // namespace
}  // namespace hexad::mesh
