// Rows exchanged through windows arrive and return at the same positions as rows sent as messages.
#include "parallel/ep/window_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/ep/random_choices.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

using ep::AllToAll;
using ep::Chunking;
using ep::RoutingPlan;

constexpr int64_t width = 3, row_bytes = width * int64_t{sizeof(double)};

Tensor chosen(Lab& lab, int rank, Load load, int64_t experts) {
  return random_choices(rank, load, rank % 2 == 1, experts, lab.context);
}

// Sends the rows of a chunk as messages. Returns the rows received, grouped by expert.
Tensor sent_and_placed(Lab& lab, const RoutingPlan& plan, size_t chunk, const Tensor& tokens,
                       const comm::ProcessGroup& world) {
  const ep::ChunkCounts& counts = plan.counts.chunks[chunk];
  const Tensor index = counts.part_of(plan.indices.wire_tokens);
  const Tensor packed = Tensor::empty({index.dim(0), width}, tokens.dtype(), lab.context);
  const auto& k = kernels::kernels(tokens.device()).permute;
  k.gather(lab.stream(), packed, tokens, index, {});
  const auto [arrived, event] = ep::send_to_experts(counts, packed, world, lab.stream());
  lab.stream().wait(event);
  const Tensor& place = plan.indices.chunks[chunk].place;
  if (!place.defined()) return arrived;
  const Tensor grouped = Tensor::like(arrived);
  k.scatter(lab.stream(), grouped, arrived, place);
  return grouped;
}

TEST(WindowExchange, DeliversGroupedRowsAndReturnsThem) {
  const Chunking chunkings[] = {{}, {Chunking::By::tokens, 3}, {Chunking::By::peers, 3}, {Chunking::By::experts, 2}};
  for (const int ranks : {2, 3, 4})
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      Lab lab;
      const comm::SelfGroup self;
      comm::Windows windows(world);
      const ep::ExpertGroups without_windows{&world, &self, &world};
      ep::ExpertGroups groups = without_windows;
      groups.windows = &windows;
      for (const Load load : {Load::one_expert, Load::random, Load::some_ranks_empty})
        for (const Chunking& chunking : chunkings) {
          if (chunking.by == Chunking::By::peers && chunking.chunks > ranks) continue;
          const int64_t experts = 2 * ranks;
          const Tensor ids = chosen(lab, world.rank(), load, experts);
          const RoutingPlan one = plan_for_ids(ids, experts, without_windows, {.chunking = chunking}, lab.stream());
          const ep::RoutingOptions options{
              .chunking = chunking, .all_to_all = AllToAll::window, .row_bytes = row_bytes};
          const RoutingPlan two = plan_for_ids(ids, experts, groups, options, lab.stream());
          ASSERT_EQ(two.counts.windows, &windows);
          const Tensor tokens = lab.integers({ids.dim(0), width}, -9, 9);
          for (size_t c = 0; c < one.counts.chunks.size(); ++c) {
            const ep::ChunkCounts& counts = two.counts.chunks[c];
            EXPECT_EQ(counts.offsets, one.counts.chunks[c].offsets);
            const Tensor index = counts.part_of(two.indices.wire_tokens), &runs = two.indices.chunks[c].runs;
            const Tensor got = ep::send_by_window(counts, runs, tokens, index, windows, lab.stream());
            expect_bitwise(sent_and_placed(lab, one, c, tokens, world), got, Zeros::expected);
            const Tensor sent = Tensor::empty({index.dim(0), width}, tokens.dtype(), lab.context),
                         back = Tensor::like(sent);
            kernels::kernels(tokens.device()).permute.gather(lab.stream(), sent, tokens, index, {});
            ep::return_by_window(back, counts, runs, got, windows, lab.stream());
            expect_bitwise(sent, back, Zeros::expected);
          }
        }
    });
}

// The first routing sends one row to each rank, and the second routing sends all rows to rank 0.
TEST(WindowExchange, IsReplacedByMessagesUntilWindowsHaveGrown) {
  constexpr int64_t tokens = 4096;
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    comm::Windows windows(world);
    const ep::ExpertGroups groups{&world, &self, &world, nullptr, nullptr, &windows};
    const ep::RoutingOptions options{.all_to_all = AllToAll::window, .row_bytes = row_bytes};
    const auto plan = [&](const std::vector<int32_t>& ids) {
      return plan_for_ids(Tensor::from<int32_t>(ids, {static_cast<int64_t>(ids.size()), 1}, lab.context), 2, groups,
                          options, lab.stream());
    };
    const std::vector<int32_t> few{0, 1}, many(tokens, 0);
    EXPECT_EQ(plan(few).counts.windows, &windows);
    const RoutingPlan sent = plan(many);
    EXPECT_EQ(sent.counts.windows, nullptr);
    EXPECT_FALSE(sent.indices.chunks.front().runs.defined());
    EXPECT_EQ(plan(few).counts.windows, &windows);
    windows.grow();
    EXPECT_GE(windows.bytes(), 2 * tokens * row_bytes);
    EXPECT_EQ(plan(many).counts.windows, &windows);
  });
}

TEST(WindowExchange, IsRefusedIfRowsDoNotArrive) {
  comm::with_ranks(3, [](const comm::ProcessGroup& world) {
    Lab lab;
    comm::Windows windows(world);
    ASSERT_TRUE(windows.hold(1000, lab.context));
    EXPECT_TRUE(windows.take_fresh());
    EXPECT_FALSE(windows.take_fresh());
    EXPECT_NO_THROW(ep::check_windows(windows, lab.context, lab.stream()));
    // Redirects each row to the rank after its destination.
    std::vector<int64_t> others = windows.distances().to_vector<int64_t>();
    std::ranges::rotate(others, others.begin() + 1);
    windows.distances().upload(others.data());
    try {
      ep::check_windows(windows, lab.context, lab.stream());
      ADD_FAILURE() << "windows that lose rows were accepted; expected an error";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::communication);
      EXPECT_STREQ(e.what(),
                   "schedule.moe.all_to_all is window, but rows that the ranks of group world copied to each other's "
                   "windows did not arrive or did not return; legal here: direct");
    }
  });
}

TEST(WindowExchange, CountsBytesLikeMessages) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    const auto group = world.split(0, world.rank(), comm::TrafficClass::ep, "ep");
    comm::Windows windows(*group);
    const ep::ExpertGroups groups{group.get(), &self, group.get(), nullptr, nullptr, &windows};
    const ep::RoutingOptions options{.all_to_all = AllToAll::window, .row_bytes = row_bytes};
    // Each rank sends two rows to rank 0 and one row to rank 1.
    const Tensor ids = lab.values(std::vector<int32_t>{0, 1, 0}, {3, 1});
    const RoutingPlan plan = plan_for_ids(ids, 2, groups, options, lab.stream());
    const ep::ChunkCounts& counts = plan.counts.chunks.front();
    const Tensor tokens = lab.integers({3, width}, 1, 9), back = Tensor::like(tokens);
    const Tensor &runs = plan.indices.chunks.front().runs, &index = plan.indices.wire_tokens;
    group->take(comm::TrafficClass::ep);
    const Tensor got = ep::send_by_window(counts, runs, tokens, index, windows, lab.stream());
    EXPECT_EQ(group->take(comm::TrafficClass::ep).bytes, (world.rank() == 0 ? 1 : 2) * row_bytes);
    ep::return_by_window(back, counts, runs, got, windows, lab.stream());
    EXPECT_EQ(group->take(comm::TrafficClass::ep).bytes, (world.rank() == 0 ? 2 : 1) * row_bytes);
  });
}

}  // namespace
}  // namespace hexad::tests
