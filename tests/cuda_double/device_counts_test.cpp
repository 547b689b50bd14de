// Groups over NCCL gather the counts of routing on the devices. The routing plan is the same as with counts that the
// host exchanges. Each rank reads the counts of all ranks once.
#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "parallel/ep/received_counts.h"
#include "parallel/ep/routing_plan.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::tests {
namespace {

using base::Dtype;
using comm::CardWorld;
using ep::Chunking;
using tensor::Tensor;

constexpr int64_t experts = 8, top_k = 2, tokens = 7;

// Expert groups of all ranks of `w`, without etp. The ep ranks are connected for exchanges only.
struct Ranks {
  explicit Ranks(const CardWorld& w)
      : ep(w.world.split(0, w.world.rank(), comm::TrafficClass::ep, "ep")), groups{ep.get(), &self, ep.get()} {
    ep->connect(comm::Use::exchanges, w.context);
  }
  const comm::SelfGroup self;
  const std::unique_ptr<comm::ProcessGroup> ep;
  const ep::ExpertGroups groups;
};

// Returns ids that differ between ranks and include dropped slots.
Tensor ids_of(const CardWorld& w) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens * top_k; ++i) {
    const int64_t id = (i * 5 + w.world.rank() * 3 + i / 4) % (experts + 1);
    ids.push_back(id == experts ? -1 : static_cast<int32_t>(id));
  }
  for (size_t i = 1; i < ids.size(); i += top_k)
    if (ids[i] == ids[i - 1]) ids[i] = -1;
  return Tensor::from<int32_t>(ids, {tokens, top_k}, w.context);
}

ep::SlotOrder order_of(const CardWorld& w, const Ranks& ranks, const ep::RoutingOptions& options,
                       const comm::ProcessGroup* counting) {
  return ep::order_slots(ids_of(w), {experts, ranks.ep->size(), options.chunking, options.row_of, nullptr, counting},
                         w.world.rank(), w.context.compute());
}

std::vector<int64_t> numbers(const Tensor& t) { return t.defined() ? t.to_vector<int64_t>() : std::vector<int64_t>{}; }

void expect_same(const ep::RoutingPlan& a, const ep::RoutingPlan& b) {
  ASSERT_EQ(a.counts.chunks.size(), b.counts.chunks.size());
  for (size_t c = 0; c < a.counts.chunks.size(); ++c) {
    SCOPED_TRACE(base::cat("chunk ", c));
    EXPECT_EQ(a.counts.chunks[c].splits.send, b.counts.chunks[c].splits.send);
    EXPECT_EQ(a.counts.chunks[c].splits.receive, b.counts.chunks[c].splits.receive);
    EXPECT_EQ(a.counts.chunks[c].offsets, b.counts.chunks[c].offsets);
    EXPECT_EQ(a.counts.chunks[c].shared, b.counts.chunks[c].shared);
    EXPECT_EQ(numbers(a.indices.chunks[c].place), numbers(b.indices.chunks[c].place));
  }
  EXPECT_EQ(numbers(a.indices.rows), numbers(b.indices.rows));
  EXPECT_EQ(numbers(a.indices.wire_tokens), numbers(b.indices.wire_tokens));
}

void expect_same_plans(const CardWorld& w, const Chunking& chunking) {
  const Ranks ranks(w);
  const ep::RoutingOptions options{.chunking = chunking};
  device::Stream& stream = w.context.compute();
  const comm::ProcessGroup* counting = ep::counting_group(ranks.groups, options);
  ASSERT_EQ(counting, ranks.ep.get());
  const int64_t connected = cuda_double::nccl_bytes(w.place.place);
  w.context.take_host_reads();
  const ep::SlotOrder order = order_of(w, ranks, options, counting);
  const ep::RoutingPlan by_device = ep::make_routing_plan(order, ranks.groups, options, stream);
  EXPECT_EQ(w.context.take_host_reads(), (device::DeviceContext::HostReads{{"routing: counts", 1}}));
  EXPECT_EQ(cuda_double::nccl_bytes(w.place.place), connected) << "the gather needs no connections of its own";
  EXPECT_EQ(static_cast<int64_t>(order.everyones_counts.size()), ranks.ep->size() * (chunking.chunks * experts + 1));
  const ep::SlotOrder counted_by_host = order_of(w, ranks, options, nullptr);
  expect_same(by_device, ep::make_routing_plan(counted_by_host, ranks.groups, options, stream));
}

class DeviceCountsOfRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, DeviceCountsOfRanks, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_P(DeviceCountsOfRanks, GiveThePlanOfCountsThatTheHostExchanges) {
  using By = Chunking::By;
  for (const Chunking chunking :
       {Chunking{}, Chunking{By::tokens, 3}, Chunking{By::peers, 2}, Chunking{By::experts, 2}})
    comm::with_cards(GetParam(), [&](const CardWorld& w) {
      SCOPED_TRACE(base::cat("rank ", w.world.rank(), ", ", chunking.chunks, " chunks by ", int(chunking.by)));
      expect_same_plans(w, chunking);
    });
}

// Rank 1 has an id that names no expert. Both ranks refuse the id, so that neither waits for the other.
TEST(DeviceCounts, RefuseAWrongIdOfAnotherRank) {
  comm::with_cards(2, [](const CardWorld& w) {
    const Ranks ranks(w);
    const std::vector<int32_t> ids{0, w.world.rank() == 0 ? 1 : 99};
    std::string message;
    try {
      ep::order_slots(Tensor::from<int32_t>(ids, {1, 2}, w.context),
                      {.experts = experts, .ranks = 2, .counting = ranks.ep.get()}, w.world.rank(),
                      w.context.compute());
    } catch (const std::exception& e) {
      message = e.what();
    }
    EXPECT_EQ(message, w.world.rank() == 0
                           ? "routing: rank 1 of group ep sent counts that include 1 id of no expert; expected none"
                           : "[ep] slot 1 names expert 99, expected at least -1 and less than 8");
  });
}

TEST(DeviceCounts, AreExchangedByTheHostWithoutNcclAndWithHotExperts) {
  const comm::SelfGroup self;
  EXPECT_EQ(ep::counting_group({&self, &self, &self}, {}), nullptr);
  comm::with_cards(2, [](const CardWorld& w) {
    const Ranks ranks(w);
    EXPECT_EQ(ep::counting_group(ranks.groups, {.hot = ep::HotExperts({0}, experts, 2)}), nullptr);
  });
}

}  // namespace
}  // namespace hexad::tests
