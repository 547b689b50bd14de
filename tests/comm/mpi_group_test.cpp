// Tests run by mpirun: every rank runs every test.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "collectives_check.h"
#include "framework/base/block_sizes.h"
#include "parallel/comm/world.h"

namespace hexad::comm {

using device::Category;
using namespace base;

namespace {

using device::DeviceContext;
using device::InlineStream;

World* world = nullptr;  // set by main(): MPI is initialised once per process

TEST(MpiGroup, PassesTheChecksOfCollectives) { check_collectives(world->group()); }
TEST(MpiGroup, ExchangesUnevenAndEmptySplits) { check_uneven_splits(world->group()); }
TEST(MpiGroup, SendsAndReceivesInBothDirections) { check_ring(world->group()); }
TEST(MpiGroup, GroupsInFlightTogetherDoNotDeadlock) { check_groups_in_flight_together(world->group()); }

// All groups of at least two ranks use the plans of large groups if direct_ranks is 1.
TEST(MpiGroup, PassesChecksWithoutDirectMessages) {
  const BlockSizes no_direct_messages{.direct_ranks = 1, .scratch_bytes = 1 << 16};
  const WithBlockSizes sizes(no_direct_messages);
  check_collectives(world->group());
  check_uneven_splits(world->group());
  check_groups_in_flight_together(world->group());
}

TEST(MpiGroup, SplitsByColourAndKey) {
  check_split(world->group());
  // Splits the world again, although the earlier groups of the ranks differ in size.
  const auto again = world->group().split(0, 0, TrafficClass::dp, "dp");
  check_collectives(*again);
}

TEST(MpiGroup, OperationsOfDifferentStreamsAreMatchedInCallOrder) {
  DeviceContext context{{.worker_lanes = true}};
  Stream &slow = context.stream(device::Lane::inter), &fast = context.stream(device::Lane::intra);
  const Tensor a = Tensor::zeros({1}, Dtype::i64, context), b = Tensor::zeros({1}, Dtype::i64, context);
  slow.run([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * world->rank()));
    *a.data<int64_t>() = 1;
  });
  const Event first = world->group().all_reduce(a, Reduce::sum, slow);
  const Event second = world->group().all_reduce(b, Reduce::max, fast);
  second.wait();
  first.wait();
  EXPECT_EQ(*a.data<int64_t>(), world->size());
}

TEST(MpiGroup, AccountsBytesAndTimeByTrafficClass) {
  DeviceContext context;
  InlineStream stream;
  const auto ep = world->group().split(0, world->rank(), TrafficClass::ep, "ep");
  ep->take(TrafficClass::ep);
  const Tensor in = Tensor::zeros({1 << 20}, Dtype::f32, context);
  const Tensor out = Tensor::zeros({int64_t{world->size()} << 20}, Dtype::f32, context);
  ep->all_gather(out, in, stream).wait();
  const TrafficStats stats = ep->take(TrafficClass::ep);
  EXPECT_EQ(stats.bytes, (world->size() - 1) * (int64_t{4} << 20));
  EXPECT_GT(stats.seconds, 0);
  EXPECT_EQ(ep->take(TrafficClass::ep).bytes, 0);
}

TEST(MpiGroup, CommunicationMemoryIsReleased) {
  DeviceContext context;
  InlineStream stream;
  const Tensor x = Tensor::zeros({1 << 20}, Dtype::f32, context, Category::gradient);
  for (int i = 0; i < 4; ++i) world->group().all_reduce(x, Reduce::sum, stream).wait();
  const auto stats = context.allocator()->stats();
  EXPECT_EQ(stats.used_in(Category::communication), 0);
  EXPECT_LE(stats.peak_in(Category::communication), 4 << 20);
}

TEST(MpiGroup, ComparedCallsThatAgreePassChecks) {
  world->set_guards({.check_collectives = true});
  check_collectives(world->group());
  check_uneven_splits(world->group());
  check_ring(world->group());
  check_groups_in_flight_together(world->group());
  world->set_guards({});
}

TEST(World, KnowsItsNode) {
  EXPECT_EQ(world->topology().size, world->size());
  EXPECT_EQ(world->topology().node_of_rank.size(), static_cast<size_t>(world->size()));
  EXPECT_EQ(world->topology().node_names.size(), 1u);
  EXPECT_EQ(world->local_rank(), world->rank());
  EXPECT_FALSE(world->node_name().empty());
  EXPECT_FALSE(world->group().crosses_nodes());
}

}  // namespace
}  // namespace hexad::comm

int main(int argc, char** argv) {
  hexad::comm::World world;
  hexad::comm::world = &world;
  if (world.rank() != 0) GTEST_FLAG_SET(brief, 1);  // other ranks report only failures
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  // Peers of a failed rank may wait for it forever, so the job is aborted.
  if (failed) world.abort_job(hexad::comm::ExitCode::communication);
  return 0;
}
