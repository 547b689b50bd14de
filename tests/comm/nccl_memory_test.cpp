// Device memory that NCCL takes to connect ranks. Tests the estimate and the accounting of this memory, and its
// sharing by groups and duplicates. Also tests failures if a device has too little memory. The NCCL test double takes
// memory for each connection.
#include <gtest/gtest.h>

#include <algorithm>

#include "nccl_ranks.h"
#include "parallel/comm/connection_bytes.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::comm {

using device::Category;
using namespace base;

namespace {

constexpr int64_t mib = 1 << 20;

// Returns the bytes of this rank's device that the NCCL double has taken.
int64_t taken(const CardWorld& w) { return cuda_double::nccl_bytes(w.place.place); }

// Returns the bytes that the rank's allocator counts for NCCL.
int64_t counted(const CardWorld& w) { return w.context.allocator()->stats().used_in(Category::connection); }

// Waits until all ranks have called this function.
void meet(const CardWorld& w) { w.world.any(false, w.context); }

std::unique_ptr<ProcessGroup> group_of(const CardWorld& w, TrafficClass traffic, const std::string& name) {
  return w.world.split(0, w.world.rank(), traffic, name);
}

void sum(const CardWorld& w, const ProcessGroup& group, int64_t elements, float expected) {
  const Tensor x = Tensor::from<float>(std::vector<float>(elements, 1.0f), {elements}, w.context);
  group.all_reduce(x, Reduce::sum, w.context.compute()).wait();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(elements, expected));
}

// Returns the estimate of a rank's memory for a group of all ranks.
int64_t estimate_of(const CardWorld& w, TrafficClass traffic, Uses uses) {
  const int ranks = w.world.size();
  const std::vector<int>& nodes = w.world.node_of_rank();
  const int here = static_cast<int>(std::ranges::count(nodes, nodes[w.world.rank()]));
  const nccl::StreamKind kind{.traffic = traffic, .across_nodes = here < ranks};
  const int64_t bytes = nccl::connection_bytes(nccl::shape_of(kind, ranks, here), uses);
  if (!uses.has(Use::messages)) return bytes;
  const std::vector<Route> all = all_routes(ranks);
  const int most = max_routes_per_rank({all.begin(), all.end()});
  return bytes + nccl::message_bytes(all, most, w.world.rank(), nodes);
}

class NcclMemory : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, NcclMemory, testing::Values(2, 3, 4, 8));

// Connects groups of all ranks for several uses. Expects the memory to be within 1% of the estimate, and to be counted
// by the allocator.
void expect_estimates(const CardWorld& w) {
  int number = 0;
  for (const TrafficClass traffic : {TrafficClass::ep, TrafficClass::cp})
    for (const Uses uses :
         {Uses(Use::sums), Uses(Use::small_sums), Uses(Use::counts), Uses(Use::shares), Uses(Use::gathers),
          Uses(Use::exchanges), Uses(Use::messages), Uses{Use::gathers, Use::exchanges, Use::sums, Use::messages}}) {
      const auto group = group_of(w, traffic, cat("group ", number++));
      const int64_t before = taken(w);
      group->connect(uses, w.context);
      const int64_t more = taken(w) - before;
      const int64_t estimate = estimate_of(w, traffic, uses);
      EXPECT_NEAR(static_cast<double>(more) / static_cast<double>(estimate), 1, 0.01)
          << group->name() << ": " << more << " bytes, estimate " << estimate;
      EXPECT_EQ(counted(w), taken(w));
      group->connect(uses, w.context);
      EXPECT_EQ(taken(w) - before, more) << "connecting the group again takes no more memory";
    }
}

TEST_P(NcclMemory, IsWithinOnePercentOfTheEstimateAndCounted) { with_cards(GetParam(), expect_estimates); }

// Groups over two nodes also have buffers for the network.
TEST(NcclMemoryOfNodes, IsWithinOnePercentOfTheEstimateAndCounted) {
  for (const int here : {1, 2, 4}) {
    std::vector<int> nodes(2 * here, 0);
    std::fill(nodes.begin() + here, nodes.end(), 1);
    const auto change = cuda_double::NcclChange::cards_per_node(here);
    with_cards(2 * here, expect_estimates, {}, nullptr, nodes);
  }
}

TEST_P(NcclMemory, IsTakenForConnectedRoutesOnly) {
  const int ranks = GetParam();
  std::vector<Route> ring;
  for (int rank = 0; rank < ranks; ++rank) ring.push_back({rank, (rank + 1) % ranks});
  with_cards(ranks, [&](const CardWorld& w) {
    const auto group = group_of(w, TrafficClass::cp, "cp");
    const int64_t estimate = nccl::message_bytes(ring, 2, w.world.rank(), std::vector<int>(ranks, 0));
    for (int repeat = 0; repeat < 2; ++repeat) {
      group->connect_routes(ring, w.context);
      EXPECT_EQ(taken(w), estimate);
      EXPECT_EQ(counted(w), estimate);
    }
    const int next = (w.world.rank() + 1) % ranks, before = (w.world.rank() + ranks - 1) % ranks;
    const Tensor out = Tensor::zeros({100}, Dtype::f32, w.context), in = Tensor::empty({100}, Dtype::f32, w.context);
    const Event sent = group->send(out, next, w.context.compute());
    group->receive(in, before, w.context.compute()).wait();
    sent.wait();
    EXPECT_EQ(taken(w), estimate);
  });
}

TEST_P(NcclMemory, IsTheSameForSumsInRankOrderAsForExchanges) {
  const int ranks = GetParam();
  const auto never = [](Stream&, const Tensor&, std::span<const Tensor>) { FAIL() << "no sum was expected"; };
  with_cards(ranks,
             [&](const CardWorld& w) {
               const auto group = group_of(w, TrafficClass::dp, "dp");
               group->connect({Use::sums, Use::shares}, w.context);
               EXPECT_EQ(taken(w), nccl::connection_bytes(nccl::shape_of({.traffic = TrafficClass::dp}, ranks, ranks),
                                                          Use::exchanges));
             },
             {.sum_of = never});
}

TEST(NcclMemoryOfGroups, IsTakenByFirstOperationsOfGroupsThatWereNotConnected) {
  with_cards(3, [](const CardWorld& w) {
    EXPECT_EQ(counted(w), 0);
    const nccl::CommunicatorShape shape = nccl::shape_of({.traffic = TrafficClass::tp}, 3, 3);
    const auto group = group_of(w, TrafficClass::tp, "tp");
    sum(w, *group, 100, 3);
    EXPECT_EQ(counted(w), nccl::connection_bytes(shape, Use::small_sums));
    sum(w, *group, mib, 3);
    EXPECT_EQ(counted(w), nccl::connection_bytes(shape, Use::sums));
    EXPECT_EQ(counted(w), taken(w));
  });
}

TEST(NcclMemoryOfGroups, DoesNotGrowAfterConnecting) {
  with_cards(2, [](const CardWorld& w) {
    const auto group = group_of(w, TrafficClass::tp, "tp");
    group->connect({Use::sums, Use::messages}, w.context);
    const int64_t before = taken(w);
    sum(w, *group, 2 * mib, 2);
    const int peer = 1 - w.world.rank();
    const Tensor out = Tensor::zeros({100}, Dtype::f32, w.context), in = Tensor::empty({100}, Dtype::f32, w.context);
    const Event sent = group->send(out, peer, w.context.compute());
    group->receive(in, peer, w.context.compute()).wait();
    sent.wait();
    EXPECT_EQ(taken(w), before);
  });
}

TEST(NcclMemoryOfGroups, IsReturnedWhenGroupsEnd) {
  with_cards(2, [](const CardWorld& w) {
    auto group = group_of(w, TrafficClass::ep, "ep");
    group->connect({Use::exchanges, Use::messages}, w.context);
    EXPECT_GT(counted(w), 0);
    group.reset();
    EXPECT_EQ(counted(w), 0);
    EXPECT_EQ(taken(w), 0);
    EXPECT_GT(w.context.allocator()->stats().peak_in(Category::connection), 0);
  });
}

TEST(NcclMemoryOfGroups, IsReportedWithTheNumberOfCommunicators) {
  with_cards(2, [](const CardWorld& w) {
    const auto group = group_of(w, TrafficClass::ep, "ep");
    group->connect(Use::exchanges, w.context);
    const auto memory = connection_memory(w.world);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->communicators, 2) << "the communicators are those of world and ep";
    EXPECT_EQ(memory->bytes, taken(w));
  });
}

TEST(NcclMemoryOfGroups, IsSharedByDuplicates) {
  with_cards(4, [](const CardWorld& w) {
    const auto ep = group_of(w, TrafficClass::ep, "ep");
    const auto duplicate = ep->duplicate("ep x etp");
    EXPECT_EQ(duplicate->name(), "ep x etp");
    EXPECT_EQ(duplicate->rank(), ep->rank());
    const auto all = cuda_double::nccl_communicators();
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const auto& c) { return c.name == "ep x etp"; }));
    ep->connect({Use::exchanges, Use::sums}, w.context);
    const int64_t before = taken(w);
    duplicate->connect({Use::exchanges, Use::sums}, w.context);
    EXPECT_EQ(taken(w), before);
    for (int repeat = 0; repeat < 3; ++repeat) sum(w, *ep, 100, 4), sum(w, *duplicate, 100, 4);
  });
}

class FullCard : public testing::Test {
 protected:
  void TearDown() override { cuda_double::set_capacity(capacity_); }

 private:
  const int64_t capacity_ = cuda_double::capacity();
};

TEST_F(FullCard, IsReportedWithTheGroupAndTheBytes) {
  with_cards(2, [](const CardWorld& w) {
    const auto ep = group_of(w, TrafficClass::ep, "ep");
    meet(w);
    if (w.world.rank() == 0)
      cuda_double::set_capacity(std::max(cuda_double::in_use(0), cuda_double::in_use(1)) + 16 * mib);
    meet(w);
    try {
      ep->connect(Use::exchanges, w.context);
      ADD_FAILURE() << "NCCL succeeded on a full card";
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.code(), ExitCode::resource) << text;
      EXPECT_TRUE(
          text.starts_with("[nccl] the card is out of memory: to connect the ranks of group ep, NCCL needs about "
                           "192 MiB, but "))
          << text;
      for (const char* part :
           {" are available (",
            "; set distributed.device_collectives: host, which needs no card memory. Memory in use:\n",
            "unhandled cuda error", "  connection "})
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
    meet(w);
  });
}

}  // namespace
}  // namespace hexad::comm
