// A rank with imagined peers, compared with a rank of a real group.
#include "parallel/comm/imagined_group.h"

#include <gtest/gtest.h>

#include <mutex>

#include "framework/device/meta/meta_run.h"
#include "parallel/comm/node_groups.h"
#include "parallel/comm/thread_group.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
namespace {

using namespace comm;

using device::DeviceContext;

// Calls every kind of operation, with the same sizes on all ranks. Every rank sends to the next rank and receives from
// the previous rank.
void all_operations(const ProcessGroup& g, device::Device device) {
  Stream& stream = device.context().compute();
  const int64_t n = g.size();
  const auto tensor = [&](int64_t rows, Dtype dtype = Dtype::f32) { return Tensor::zeros({rows, 5}, dtype, device); };
  const Splits splits{std::vector<int64_t>(n, 3), std::vector<int64_t>(n, 3)};
  g.all_reduce(tensor(4), Reduce::sum, stream).wait();
  g.all_reduce(tensor(4), Reduce::max, stream).wait();
  g.reduce_scatter(tensor(2), tensor(2 * n), stream).wait();
  g.all_gather(tensor(2 * n, Dtype::bf16), tensor(2, Dtype::bf16), stream).wait();
  g.all_to_all(tensor(3 * n), tensor(3 * n), splits, stream).wait();
  g.broadcast(tensor(2), 1, stream).wait();
  const Event sent = g.send(tensor(7), (g.rank() + 1) % g.size(), stream);
  g.receive(tensor(7), (g.rank() + g.size() - 1) % g.size(), stream).wait();
  sent.wait();
  g.barrier(stream).wait();
}

TEST(ImaginedGroup, CountsTheBytesOfARealGroup) {
  constexpr int ranks = 3;
  std::array<int64_t, ranks> counted{};
  with_ranks(ranks, [&](const ProcessGroup& world) {
    DeviceContext context;
    all_operations(world, context);
    world.barrier(context.compute()).wait();
    counted[world.rank()] = world.take(TrafficClass::control).bytes;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    DeviceContext context(
        {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cpu)});
    const ImaginedGroup group(rank, ranks);
    all_operations(group, context);
    EXPECT_EQ(group.take(TrafficClass::control).bytes, counted[rank]) << "rank " << rank;
  }
}

TEST(ImaginedGroup, GivesOtherRanksTheValuesOfThisRank) {
  DeviceContext context;
  const ImaginedGroup group(1, 3);
  const std::vector<int64_t> mine{4, 5};
  EXPECT_EQ(group.all_gather_values(mine, context), (std::vector<int64_t>{4, 5, 4, 5, 4, 5}));
  EXPECT_EQ(group.all_reduce_value(2, Reduce::sum, context), 6);
  EXPECT_EQ(group.all_reduce_value(2, Reduce::max, context), 2);
  // Every peer sends this rank a copy of the rows that this rank sends to itself.
  const Tensor in = Tensor::from<int32_t>(std::vector<int32_t>{1, 2, 3, 4, 5}, {5}, context),
               out = Tensor::zeros({6}, Dtype::i32, context);
  group.all_to_all(out, in, {{1, 2, 2}, {2, 2, 2}}, context.compute()).wait();
  EXPECT_EQ(out.to_vector<int32_t>(), (std::vector<int32_t>{2, 3, 2, 3, 2, 3}));
}

TEST(ImaginedGroup, ForgetsValuesOfOtherRanks) {
  DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cpu)});
  const ImaginedGroup group(0, 2);
  const auto known = [&] { return Tensor::from<int32_t>(std::vector<int32_t>{1, 2}, {2}, context); };
  const auto forgotten = [](const Tensor& t) { return t.to_vector<int32_t>() == std::vector<int32_t>{0, 0}; };
  const Tensor in = known(), sum = known(), exchanged = known(), received = known(), share = known(), all = known();
  group.all_reduce(sum, Reduce::sum, context.compute()).wait();
  group.all_to_all(exchanged, in, {{1, 1}, {1, 1}}, context.compute()).wait();
  group.receive(received, 1, context.compute()).wait();
  group.reduce_scatter(share.slice(0, 0, 1), in, context.compute()).wait();
  EXPECT_TRUE(forgotten(sum) && forgotten(exchanged) && forgotten(received));
  EXPECT_EQ(share.slice(0, 1, 2).to_vector<int32_t>(), std::vector<int32_t>{2})
      << "the rest of the slice's memory is unchanged";
  group.all_gather(all, in.slice(0, 0, 1), context.compute()).wait();
  EXPECT_EQ(all.to_vector<int32_t>(), (std::vector<int32_t>{1, 1}));
}

TEST(ImaginedGroup, RefusesOperationsWithUnknownResults) {
  DeviceContext context;
  const ImaginedGroup group(0, 2);
  const Tensor x = Tensor::zeros({2}, Dtype::f32, context), two = Tensor::zeros({4}, Dtype::f32, context);
  EXPECT_THROW(group.receive(x, 1, context.compute()), std::logic_error);
  EXPECT_THROW(group.reduce_scatter(x, two, context.compute()), std::logic_error);
  EXPECT_THROW(group.split(0, 0, TrafficClass::ep, "ep"), std::logic_error);
}

TEST(ImaginedGroup, SubgroupHasTheListedMembers) {
  const ImaginedGroup world(5, 8);
  const auto group = world.subgroup({1, 5, 7}, TrafficClass::ep, "ep");
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 3);
  EXPECT_EQ(group->meter(), world.meter());
  EXPECT_EQ(split_by_node(*group), nullptr);
}

// A collective in flight holds its tensor, as in a real group. A message releases its tensor immediately.
TEST(ImaginedGroup, HoldsTensorsOfCollectivesUntilTheWait) {
  DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cpu)});
  const ImaginedGroup group(0, 2);
  const auto tensor = [&] { return Tensor::empty({100}, Dtype::f32, context); };
  const auto held = [&] { return context.allocator()->stats().total; };
  Event event = group.all_reduce(tensor(), Reduce::sum, context.compute());
  EXPECT_EQ(held(), 400);
  event.wait();
  EXPECT_EQ(held(), 0);
  event = group.all_reduce(tensor(), Reduce::sum, context.compute());
  event = {};
  EXPECT_EQ(held(), 0) << "no event is left to wait for";
  event = group.send(tensor(), 1, context.compute());
  EXPECT_EQ(held(), 0);
}

TEST(ImaginedGroup, HoldsNoTensorsIfPeersArePrompt) {
  DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cpu)});
  const ImaginedGroup world(0, 4, nullptr, {}, {}, ImaginedPeers::prompt);
  const auto group = world.subgroup({0, 2}, TrafficClass::dp, "dp");
  const Event event = group->all_reduce(Tensor::empty({100}, Dtype::f32, context), Reduce::sum, context.compute());
  EXPECT_TRUE(event.done());
  EXPECT_EQ(context.allocator()->stats().total, 0);
}

TEST(ImaginedGroup, TakesMemoryForConnectedRoutesAndRefusesMessagesOnOtherRoutes) {
  DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cuda)});
  const std::vector<int> one_node(3, 0);
  const ImaginedGroup group(1, 3, nullptr, {}, std::make_shared<const ImaginedCards>(ImaginedCards{one_node}));
  const std::vector<Route> ring{{0, 1}, {1, 2}, {2, 0}};
  const auto taken = [&] { return context.allocator()->stats().used_in(device::Category::connection); };
  for (int repeat = 0; repeat < 2; ++repeat) {
    group.connect_routes(ring, context);
    EXPECT_EQ(taken(), nccl::message_bytes(ring, 2, 1, one_node));
  }
  const Tensor x = Tensor::empty({100}, Dtype::f32, context);
  const int64_t before = taken();
  group.send(x, 2, context.compute()).wait();
  group.receive(x, 0, context.compute()).wait();
  EXPECT_EQ(taken(), before);
  EXPECT_THROW(group.send(x, 0, context.compute()), std::logic_error);
}

// NcclGroup also gathers few bytes over these connections (use_over_nccl()).
TEST(ImaginedGroup, GathersFewBytesOverTheConnectionsOfExchanges) {
  DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(device::DeviceKind::cuda)});
  const auto cards = std::make_shared<const ImaginedCards>(ImaginedCards{.node_of_rank = {0, 0, 0}});
  const auto taken = [&] { return context.allocator()->stats().used_in(device::Category::connection); };
  const auto gather = [&](const ImaginedGroup& group, int64_t rows) {
    const int64_t before = taken();
    group
        .all_gather(Tensor::empty({3 * rows, 1024}, Dtype::i64, context),
                    Tensor::empty({rows, 1024}, Dtype::i64, context), context.compute())
        .wait();
    return taken() - before;
  };
  const ImaginedGroup exchanging(1, 3, nullptr, {}, cards), unconnected(1, 3, nullptr, {}, cards);
  exchanging.connect(Use::exchanges, context);
  EXPECT_GT(taken(), 0);
  EXPECT_EQ(gather(exchanging, 1), 0);
  EXPECT_GT(gather(exchanging, 1024), 0) << "24 MiB need connections for gathers";
  EXPECT_GT(gather(unconnected, 1), 0);
  EXPECT_TRUE(exchanging.runs_on_devices());
  EXPECT_FALSE(ImaginedGroup(1, 3).runs_on_devices());
}

}  // namespace
}  // namespace hexad::tests
