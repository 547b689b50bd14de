// Mistakes planted in plans of collectives and in the use of buffers. Each mistake changes the results for every tested
// seed if the network is adversarial.
#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "hasty_message_plan.h"
#include "parallel/comm/engine_ranks.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;
using Kind = Operation::Kind;

constexpr uint64_t seeds = 20;
constexpr int64_t round_bytes = 16384;                 // at most 4096 elements of f32 per message
constexpr int64_t elements = 6 * round_bytes / 4 + 5;  // elements of a rank's piece

float value(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 5) % 13 + 1); }

Tensor filled(int64_t n, int rank, Device device) {
  Tensor t = Tensor::empty({n}, Dtype::f32, device);
  for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = value(rank, i);
  return t;
}

float sum(int ranks, int64_t i) {
  float total = 0;
  for (int r = 0; r < ranks; ++r) total += value(r, i);
  return total;
}

template <class Expected>
bool is(const Tensor& t, Expected expected) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (!(t.data<float>()[i] == expected(i))) return false;
  return true;
}

using Collective = bool (*)(const ProcessGroup& world);  // returns true if the result is right

bool reduce_scatter(const ProcessGroup& world) {
  DeviceContext context;
  InlineStream stream;
  const Tensor out = Tensor::empty({elements}, Dtype::f32, context);
  world.reduce_scatter(out, filled(world.size() * elements, world.rank(), context), stream).wait();
  return is(out, [&](int64_t i) { return sum(world.size(), world.rank() * elements + i); });
}

bool all_reduce(const ProcessGroup& world) {
  DeviceContext context;
  InlineStream stream;
  const Tensor x = filled(world.size() * elements, world.rank(), context);
  world.all_reduce(x, Reduce::sum, stream).wait();
  return is(x, [&](int64_t i) { return sum(world.size(), i); });
}

bool broadcast(const ProcessGroup& world) {
  DeviceContext context;
  InlineStream stream;
  const Tensor x = filled(world.size() * elements, world.rank(), context);
  world.broadcast(x, 0, stream).wait();
  return is(x, [&](int64_t i) { return value(0, i); });
}

bool is_right(int ranks, uint64_t seed, Collective collective, MakeMessagePlan plan) {
  std::atomic<int> right = 0;
  with_engine_ranks(ranks, [&](const ProcessGroup& world) { right += collective(world); },
                    {.adversary = seed, .engine = {.limits = {.round_bytes = round_bytes}, .make_message_plan = plan}});
  return right == ranks;
}

struct Planted {
  const char* name;
  Collective collective;
  MakeMessagePlan plan;
  int least_ranks = 2;
};
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

class PlantedPlans : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(
    , PlantedPlans,
    testing::Values(Planted{"ReduceScatterReusesSlotsBeforeTheyAreSummed", reduce_scatter,
                            hasty_plan<Kind::reduce_scatter, true>},
                    Planted{"AllReduceGathersBeforeItHasSummed", all_reduce, hasty_plan<Kind::all_reduce, false>},
                    Planted{"BroadcastForwardsDataBeforeTheyArrive", broadcast, hasty_plan<Kind::broadcast, false>, 3}),
    [](const auto& i) { return i.param.name; });

TEST_P(PlantedPlans, AreFoundForEverySeed) {
  const Planted& p = GetParam();
  for (int ranks = p.least_ranks; ranks <= 4; ++ranks)
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      EXPECT_TRUE(is_right(ranks, seed, p.collective, make_message_plan)) << ranks << " ranks, seed " << seed;
      EXPECT_FALSE(is_right(ranks, seed, p.collective, p.plan)) << ranks << " ranks, seed " << seed;
    }
}

// Passes blocks around a ring with two buffers, like ring attention. The stream waits for its sends if `waits.first` is
// true, and for its receives if `waits.second` is true. Returns true if the result is right.
bool ring_is_right(int ranks, uint64_t seed, std::pair<bool, bool> waits) {
  std::atomic<bool> right = true;
  const auto body = [&](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const int next = (world.rank() + 1) % ranks, before = (world.rank() + ranks - 1) % ranks;
    std::vector<Event> started;
    for (int pass = 0; pass < 8; ++pass) {
      Tensor present = filled(1000, world.rank(), context), coming = Tensor::like(present);
      for (int step = 0; step + 1 < ranks; ++step) {
        const Event sent = world.send(present, next, stream), arrived = world.receive(coming, before, stream);
        if (waits.first) stream.wait(sent);
        if (waits.second) stream.wait(arrived);
        started.push_back(sent), started.push_back(arrived);
        std::swap(present, coming);
        const int owner = (world.rank() + ranks - step - 1) % ranks;
        if (!is(present, [&](int64_t i) { return value(owner, i); })) right = false;
      }
    }
    for (const Event& e : started) e.wait();
  };
  with_engine_ranks(ranks, body, {.adversary = seed});
  return right;
}

TEST(PlantedRing, BuffersUsedWithoutAWaitAreFoundForEverySeed) {
  for (int ranks : {3, 4})
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      EXPECT_TRUE(ring_is_right(ranks, seed, {true, true})) << ranks << " ranks, seed " << seed;
      EXPECT_FALSE(ring_is_right(ranks, seed, {true, false})) << ranks << " ranks, seed " << seed;
      EXPECT_FALSE(ring_is_right(ranks, seed, {false, true})) << ranks << " ranks, seed " << seed;
    }
}

}  // namespace
}  // namespace hexad::comm
