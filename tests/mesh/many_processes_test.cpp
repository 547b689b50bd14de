// Tests run by mpirun: many processes start and make a mesh.
#include <gtest/gtest.h>

#include "parallel/comm/world.h"
#include "parallel/mesh/mesh.h"

namespace hexad::mesh {
namespace {

comm::World* world = nullptr;  // set by main(): MPI is initialised once per process

TEST(ManyProcesses, MakeAMesh) {
  const int size = world->size(), rank = world->rank();
  const Mesh mesh(world->group(), {.tp = 2, .ep = size / 2, .etp = 1});
  device::DeviceContext context;
  const int64_t mine[] = {rank};
  for (const Axis axis : {Axis::dp, Axis::tp, Axis::ep}) {
    const std::vector<int64_t> members = mesh[axis].all_gather_values(mine, context);
    EXPECT_EQ(std::vector<int>(members.begin(), members.end()), mesh.layout().members(axis, rank));
  }
  EXPECT_EQ(mesh.world().all_reduce_value(rank, comm::Reduce::max, context), size - 1);
  EXPECT_EQ(mesh.world().all_reduce_value(1, comm::Reduce::sum, context), size);
  device::InlineStream stream;
  mesh.world().barrier(stream).wait();
}

}  // namespace
}  // namespace hexad::mesh

int main(int argc, char** argv) {
  hexad::comm::World world;
  hexad::mesh::world = &world;
  if (world.rank() != 0) GTEST_FLAG_SET(brief, 1);  // other ranks report only failures
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  // Peers of a failed rank may wait for it forever, so the job is aborted.
  if (failed) world.abort_job(hexad::comm::ExitCode::communication);
  return 0;
}
