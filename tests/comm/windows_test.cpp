// Windows of ranks that are threads of one process. In an exchange, each rank writes to the windows of all ranks, and
// then reads its own window.
#include "parallel/comm/windows.h"

#include <gtest/gtest.h>

#include "framework/base/ordinal.h"
#include "parallel/comm/engine_ranks.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;

// Returns the window of rank `rank`, which is host memory.
int64_t* window_of(const Windows& windows, int rank) {
  return reinterpret_cast<int64_t*>(windows.own().data<uint8_t>() + windows.distances().data<int64_t>()[rank]);
}

// In each of 20 exchanges, each rank writes a number to each window, and then reads the numbers in its own window.
void exchange_numbers(const ProcessGroup& world, Windows& windows) {
  InlineStream stream;
  for (int64_t round = 0; round < 20; ++round) {
    windows.open(stream);
    for (int r = 0; r < world.size(); ++r) window_of(windows, r)[world.rank()] = 100 * round + 10 * world.rank() + r;
    windows.wait_for_ranks(stream);
    for (int r = 0; r < world.size(); ++r)
      EXPECT_EQ(window_of(windows, world.rank())[r], 100 * round + 10 * r + world.rank());
    windows.close(stream);
  }
}

TEST(Windows, AreWrittenAndReadByAllRanks) {
  const ThreadOptions late{.jitter = {.seed = 3, .max_delay = std::chrono::microseconds(200)}};
  with_ranks(
      4,
      [](const ProcessGroup& world) {
        DeviceContext context;
        Windows windows(world);
        EXPECT_EQ(windows.refusal(context), "");
        ASSERT_TRUE(windows.hold(world.size() * int64_t{sizeof(int64_t)}, context));
        exchange_numbers(world, windows);
      },
      late);
}

TEST(Windows, AreWrittenAndReadByRanksWithEngines) {
  with_engine_ranks(3, [](const ProcessGroup& world) {
    DeviceContext context;
    Windows windows(world);
    EXPECT_EQ(windows.refusal(context), "");
    ASSERT_TRUE(windows.hold(64, context));
    exchange_numbers(world, windows);
  });
}

TEST(Windows, GrowOnlyWhenAsked) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    Windows windows(world);
    EXPECT_FALSE(windows.hold(0, context));
    EXPECT_EQ(windows.bytes(), 0);
    EXPECT_TRUE(windows.hold(100'000, context));
    const int64_t first = windows.bytes();
    EXPECT_GE(first, 125'000);
    EXPECT_TRUE(windows.hold(first, context));
    windows.grow();
    EXPECT_EQ(windows.bytes(), first);
    EXPECT_FALSE(windows.hold(first + 1, context));
    EXPECT_TRUE(windows.hold(first, context));
    EXPECT_EQ(windows.bytes(), first);
    windows.grow();
    EXPECT_GT(windows.bytes(), first);
    EXPECT_TRUE(windows.hold(first + 1, context));
    exchange_numbers(world, windows);
  });
}

// Only rank 1 has too little memory.
TEST(Windows, KeepTheirSizeOnAllRanksIfOneLacksMemory) {
  constexpr int64_t small = 4096, large = 1 << 20;
  with_ranks(3, [](const ProcessGroup& world) {
    DeviceContext context({.memory_limit = world.rank() == 1 ? large : 0});
    Windows windows(world);
    ASSERT_TRUE(windows.hold(small, context));
    const int64_t first = windows.bytes();
    EXPECT_TRUE(windows.take_fresh());
    EXPECT_EQ(windows.take_refused_bytes(), std::nullopt);
    EXPECT_FALSE(windows.hold(large, context));
    windows.grow();
    EXPECT_EQ(windows.bytes(), first);
    EXPECT_FALSE(windows.take_fresh());
    EXPECT_EQ(windows.take_refused_bytes(), large + large / 4);
    EXPECT_EQ(windows.take_refused_bytes(), std::nullopt) << "a refusal is reported once";
    EXPECT_FALSE(windows.hold(large, context));
    windows.grow();  // does not try again
    EXPECT_EQ(windows.take_refused_bytes(), std::nullopt);
    ASSERT_TRUE(windows.hold(small, context));
    exchange_numbers(world, windows);
  });
}

TEST(Windows, AreAbsentOnAllRanksIfOneLacksMemoryForTheFirst) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context({.memory_limit = world.rank() == 0 ? 4096 : 0});
    Windows windows(world);
    EXPECT_FALSE(windows.hold(1 << 20, context));
    EXPECT_EQ(windows.bytes(), 0);
    EXPECT_TRUE(windows.take_refused_bytes());
    EXPECT_FALSE(windows.hold(100, context));
    windows.grow();
    EXPECT_EQ(windows.bytes(), 0);
  });
}

TEST(Windows, AreCountedAsCommunication) {
  DeviceContext context;
  const SelfGroup alone;
  Windows windows(alone);
  const auto used = [&] { return context.used_memory()[ordinal(device::Category::communication)]; };
  const int64_t before = used();
  windows.hold(1 << 20, context);
  EXPECT_GE(used() - before, 1 << 20);
}

TEST(Windows, AreRefusedOnSeveralNodes) {
  with_ranks(2,
             [](const ProcessGroup& world) {
               DeviceContext context;
               EXPECT_EQ(Windows(world).refusal(context), "the ranks of group world are on several nodes");
             },
             {.node_of_rank = {0, 1}});
}

}  // namespace
}  // namespace hexad::comm
