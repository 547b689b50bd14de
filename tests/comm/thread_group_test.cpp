#include "parallel/comm/thread_group.h"

#include <gtest/gtest.h>

#include <atomic>

#include "collectives_check.h"

namespace hexad::comm {
namespace {

using device::DeviceContext;
using device::InlineStream;

class ThreadRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, ThreadRanks, testing::Values(1, 2, 3, 4));

TEST_P(ThreadRanks, DoWhatEveryGroupDoes) {
  with_ranks(GetParam(), [](const ProcessGroup& world) {
    check_collectives(world);
    check_uneven_splits(world);
    check_ring(world);
    check_groups_in_flight_together(world);
    check_split(world);
  });
}

TEST_P(ThreadRanks, OperationsStartInCallOrderWhateverStreamsDo) {
  with_ranks(GetParam(), [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream &slow = context.stream(device::Lane::inter), &fast = context.stream(device::Lane::intra);
    const Tensor a = Tensor::zeros({1}, Dtype::i64, context), b = Tensor::zeros({1}, Dtype::i64, context);
    slow.run([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(world.rank()));
      *a.data<int64_t>() = 1;
    });
    const Event first = world.all_reduce(a, Reduce::sum, slow), second = world.all_reduce(b, Reduce::max, fast);
    second.wait();  // does not need the first
    first.wait();
    EXPECT_EQ(*a.data<int64_t>(), world.size());
    EXPECT_EQ(*b.data<int64_t>(), 0);
  });
}

TEST(ThreadGroup, DoesNotHoldUpTheStream) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const Tensor x = Tensor::zeros({1}, Dtype::f32, context);
    const Event reduced = world.all_reduce(x, Reduce::sum, stream);
    bool went_on = false;
    stream.run([&] { went_on = true; });
    EXPECT_TRUE(went_on);
    reduced.wait();
  });
}

TEST(ThreadGroup, AFailingRankMakesItsPeersThrow) {
  std::atomic<int> peers = 0;
  const auto body = [&](const ProcessGroup& world) {
    const auto pairs = world.split(world.rank() / 2, 0, TrafficClass::ep, "pairs");
    if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
    DeviceContext context;
    try {
      pairs->any(false, context);  // rank 0 waits for the failing rank here
      world.any(false, context);   // ranks 2 and 3 here
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::peer_lost);
      EXPECT_STREQ(e.what(), "[world] rank 1 ended with an error");
      ++peers;
      throw;
    }
  };
  try {
    with_ranks(4, body);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "loss is NaN");  // the cause, not its consequences
  }
  EXPECT_EQ(peers, 3);
}

TEST(ThreadGroup, ARankThatEndsEarlyMakesItsPeersThrow) {
  try {
    with_ranks(3, [](const ProcessGroup& world) {
      DeviceContext context;
      if (world.rank() != 2) world.any(false, context);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::peer_lost);
    EXPECT_STREQ(e.what(), "[world] rank 2 ended without joining all_reduce of f64 [1]");
  }
}

std::string disagreement(const std::function<Event(const ProcessGroup&, Device, Stream&)>& call) {
  try {
    with_ranks(2, [&](const ProcessGroup& world) {
      DeviceContext context;
      InlineStream stream;
      call(world, context, stream).wait();
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    return e.what();
  }
  return "accepted";
}

TEST(ThreadGroup, RanksThatDisagreeAreNamed) {
  EXPECT_EQ(disagreement([](auto& world, auto d, auto& s) {
              const Tensor x = Tensor::zeros({4}, Dtype::f32, d);
              return world.rank() ? world.broadcast(x, 0, s) : world.all_reduce(x, Reduce::sum, s);
            }),
            "[world] ranks disagree about operation 0: rank 0 calls all_reduce of f32 [4], rank 1 calls broadcast of "
            "f32 [4] from 0");
  EXPECT_EQ(disagreement([](auto& world, auto d, auto& s) {
              return world.all_reduce(Tensor::zeros({4 + world.rank()}, Dtype::f32, d), Reduce::sum, s);
            }),
            "[world] ranks disagree about operation 0: rank 0 calls all_reduce of f32 [4], rank 1 calls all_reduce of "
            "f32 [5]");
  EXPECT_EQ(disagreement([](auto& world, auto d, auto& s) {
              const Tensor in = Tensor::zeros({2, 3}, Dtype::bf16, d), out = Tensor::zeros({3, 3}, Dtype::bf16, d);
              return world.rank() ? world.all_to_all(out, in, {{1, 1}, {2, 1}}, s)
                                  : world.all_to_all(out, in, {{1, 1}, {1, 2}}, s);
            }),
            "[world] ranks disagree about operation 0: rank 0 calls all_to_all of bf16 [2, 3], rank 1 calls all_to_all "
            "of bf16 [2, 3]");
}

TEST(ThreadGroup, AnErrorOnTheStreamBeforeReachesTheEvent) {
  with_ranks(1, [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream& lane = context.stream(device::Lane::inter);
    lane.run([] { fail(ExitCode::numeric, "NaN before the exchange"); });
    const Event event = world.all_reduce(Tensor::zeros({1}, Dtype::f32, context), Reduce::sum, lane);
    EXPECT_THROW(event.wait(), Error);
  });
}

TEST(ThreadGroup, SumsOfBf16AreRoundedOnceAndTheSameOnAllRanks) {
  with_ranks(4, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    // 256 + 1 + 1 + 1 is 256 when each sum is rounded to bf16 (8 bits), and 260 (259 rounded to even) when only the
    // last is.
    const Tensor x = Tensor::empty({1}, Dtype::bf16, context);
    *x.data<bf16>() = bf16(world.rank() ? 1.f : 256.f);
    world.all_reduce(x, Reduce::sum, stream).wait();
    EXPECT_EQ(static_cast<float>(*x.data<bf16>()), 260.f);
  });
}

TEST(ThreadGroup, CountsBytesByTrafficClass) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const auto ep = world.split(0, world.rank(), TrafficClass::ep, "ep");
    const Tensor in = Tensor::zeros({6, 2}, Dtype::f32, context), out = Tensor::zeros({6, 2}, Dtype::f32, context);
    ep->all_to_all(out, in, {{3, 3}, {3, 3}}, stream).wait();
    const TrafficStats stats = world.take(TrafficClass::ep);
    EXPECT_EQ(stats.bytes, 3 * 2 * 4);
    EXPECT_GT(stats.seconds, 0);
    EXPECT_EQ(world.take(TrafficClass::ep).bytes, 0);
    EXPECT_EQ(world.take(TrafficClass::dp).bytes, 0);
  });
}

}  // namespace
}  // namespace hexad::comm
