// Collectives on card tensors: over transports that accept card memory, and through host memory.
#include "parallel/comm/card_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "collectives_check.h"
#include "parallel/comm/device_group.h"
#include "parallel/comm/engine_ranks.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/memory.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;

const device::ContextOptions card{.kind = device::DeviceKind::cuda};

// Counters of the transfers whose data begins in card memory. `on_cards` counts the transfers whose data is entirely in
// memory that the card can access, and `elsewhere` counts the rest.
std::atomic<int64_t> on_cards = 0, elsewhere = 0;

// Makes a plan. Expects that planning does not write to `op.out`, whose card memory the host cannot access without the
// CUDA test double.
MessagePlan without_writing(const Operation& op, int rank, int size, int64_t round_bytes) {
  auto* const begin = static_cast<std::byte*>(op.out.raw());
  const std::vector<std::byte> before(begin, begin + op.out.bytes());
  std::fill_n(begin, before.size(), std::byte{0xa5});
  MessagePlan plan = make_message_plan(op, rank, size, round_bytes);
  EXPECT_EQ(std::count(begin, begin + before.size(), std::byte{0xa5}), op.out.bytes());
  std::copy(before.begin(), before.end(), begin);
  return plan;
}

// Makes a plan, and counts its transfers of card memory in `on_cards` and `elsewhere`.
MessagePlan looked_at(const Operation& op, int rank, int size, int64_t round_bytes) {
  const bool on_card = op.out.defined() && cuda_double::kind_of(op.out.raw()) == cuda_double::Memory::device;
  MessagePlan plan = (on_card ? without_writing : make_message_plan)(op, rank, size, round_bytes);
  for (const Round& round : plan.rounds)
    for (const auto* transfers : {&round.sends, &round.receives})
      for (const Transfer& t : *transfers)
        if (t.bytes > 0 && cuda_double::kind_of(t.data) == cuda_double::Memory::device)
          ++(cuda_double::reaches(t.data, t.bytes) ? on_cards : elsewhere);
  return plan;
}

void with_cards_shared(int n, const std::function<void(const ProcessGroup&, DeviceContext&)>& body) {
  on_cards = elsewhere = 0;
  const auto run = [&](const ProcessGroup& processes) {
    DeviceContext context(card);
    std::string said;
    const auto world = make_device_group(processes, context, {.info = [&](const std::string& text) { said = text; }});
    ASSERT_NE(world, nullptr);
    if (processes.rank() == 0) {
      EXPECT_TRUE(
          said.starts_with("card tensors are sent between ranks by MPI directly from card memory (for sums: through "
                           "host memory), because NCCL cannot be used: ranks 0 and 1 share a card"))
          << said;
    }
    body(*world, context);
  };
  with_engine_ranks(n, run, {.adversary = 1, .takes_cards = true, .engine = {.make_message_plan = looked_at}});
  EXPECT_EQ(elsewhere, 0);
}

class CardMessages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, CardMessages, testing::Values(2, 3, 4));

TEST_P(CardMessages, PassTheChecksOfEveryGroup) {
  with_cards_shared(GetParam(), [](const ProcessGroup& world, DeviceContext&) {
    check_collectives(world, card);
    check_uneven_splits(world, card);
    check_ring(world, card);
    check_groups_in_flight_together(world, card);
    check_split(world);
  });
}

TEST(CardMessages, StayOnTheCardExceptForSums) {
  constexpr int64_t n = 1000;
  const auto moved = [&](const auto& f) {
    with_cards_shared(2, [&](const ProcessGroup& world, DeviceContext& context) {
      const Tensor x = Tensor::zeros({2 * n}, Dtype::f32, context), part = Tensor::zeros({n}, Dtype::f32, context);
      f(world, x, part, context.compute()).wait();
    });
    return on_cards.load();
  };
  EXPECT_EQ(moved([](const ProcessGroup& world, const Tensor& x, const Tensor& part, Stream& s) {
              return world.all_gather(x, part, s);
            }),
            4);  // each rank sends and receives
  EXPECT_EQ(moved([](const ProcessGroup& world, const Tensor& x, const Tensor&, Stream& s) {
              return world.all_reduce(x, Reduce::sum, s);
            }),
            0);
}

// The engine's thread starts the copies back to the card and frees staged memory, so it must choose the rank's device.
TEST(CardMessages, GoThroughHostMemoryBetweenRanksOnDifferentCards) {
  const auto run = [](const ProcessGroup& processes) {
    const device::ContextOptions place{.kind = device::DeviceKind::cuda, .place = processes.rank() + 1};
    check_collectives(processes, place);
    check_ring(processes, place);
  };
  with_engine_ranks(2, run, {.adversary = 1});
  EXPECT_EQ(cuda_double::take_calls_without_device(), 0);
}

TEST(CardMessages, UseHostMemoryOnRequest) {
  const auto run = [](const ProcessGroup& processes) {
    DeviceContext context(card);
    EXPECT_EQ(make_device_group(processes, context, {.collectives = DeviceCollectives::host}), nullptr);
  };
  with_engine_ranks(2, run, {.takes_cards = true});
}

}  // namespace
}  // namespace hexad::comm
