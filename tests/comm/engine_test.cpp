// Communication engine over a transport inside this process, which the thread sanitizer supports and tests can delay.
#include "parallel/comm/engine.h"

#include <gtest/gtest.h>

#include <array>

#include "collectives_check.h"
#include "framework/base/clock.h"
#include "framework/base/philox.h"
#include "tests/comm/loopback.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;

TEST(CommEngine, GroupsWorkOverASlowNetwork) {
  with_engines(3, [](const ProcessGroup& world) {
    check_uneven_splits(world);
    check_ring(world);
    check_groups_in_flight_together(world);
    check_split(world);
  });
}

TEST(CommEngine, GroupsWorkWithLateMessagesAndComparedCalls) {
  CommEngine::Options options = small_rounds;
  options.guards.check_collectives = true;
  options.jitter = {.seed = 7, .max_delay = std::chrono::microseconds(300)};
  with_engines(
      3,
      [](const ProcessGroup& world) {
        check_collectives(world);
        check_uneven_splits(world);
        check_ring(world);
        check_groups_in_flight_together(world);
        check_split(world);
      },
      options);
}

// Ranks make the calls of a step in different orders. Each rank then waits for one call of the previous step and, in
// every fourth step, for all calls of this step. Therefore, a rank may wait for a class that is delayed on another
// rank. If a wait never ends, the watchdog ends the test.
TEST(CommEngine, DifferentOrdersOfCallsCauseNoDeadlock) {
  CommEngine::Options options = small_rounds;
  options.limits = {.round_bytes = 1 << 15, .window_bytes = 1 << 18, .low_window_bytes = 1 << 16};
  options.guards.watchdog_seconds = 20;
  options.jitter = {.seed = 11, .max_delay = std::chrono::microseconds(100)};
  enum Who : size_t { ep_rows, gradients, weights, message_out, message_in, kinds };
  constexpr int ranks = 4, steps = 12;
  constexpr int64_t n = 1 << 16;  // number of elements: several rounds
  const auto body = [&](const ProcessGroup& world) {
    DeviceContext context;
    const int r = world.rank();
    const auto ep = world.split(r / 2, r, TrafficClass::ep, "ep"), dp = world.split(r % 2, r, TrafficClass::dp, "dp"),
               pp = world.split(0, r, TrafficClass::pp, "pp"), soon = dp->urgent("dp, urgent");
    const base::Philox random(3, base::Purpose::jitter, "order", static_cast<uint64_t>(r));
    uint64_t draws = 0;
    InlineStream stream;
    std::array<Event, kinds> before;
    for (int step = 0; step < steps; ++step) {
      std::array<Event, kinds> now;
      std::array<Tensor, kinds> in, out;
      std::array<size_t, kinds> order{ep_rows, gradients, weights, message_out, message_in};
      for (size_t i = kinds - 1; i > 0; --i) std::swap(order[i], order[random.below(draws++, i + 1)]);
      for (size_t who : order) {
        in[who] = Tensor::zeros({n}, Dtype::f32, context), out[who] = Tensor::zeros({n}, Dtype::f32, context);
        std::fill_n(in[who].data<float>(), n, static_cast<float>(r + step));
        if (who == ep_rows)
          now[who] = ep->all_to_all(out[who], in[who], {{n / 2, n / 2}, {n / 2, n / 2}}, stream);
        else if (who == gradients || who == weights)
          now[who] = (who == weights ? soon : dp)->all_reduce(in[who], Reduce::sum, stream);
        else if (who == message_out)
          now[who] = pp->send(in[who], (r + 1) % ranks, stream);
        else
          now[who] = pp->receive(out[who], (r + 3) % ranks, stream);
      }
      if (step > 0) before[random.below(draws++, kinds)].wait();
      before = now;
      if (step % 4 < 3) continue;
      for (const Event& e : now) e.wait();
      const auto last = [&](const Tensor& t) { return t.data<float>()[n - 1]; };
      EXPECT_EQ(last(out[ep_rows]), static_cast<float>(r / 2 * 2 + 1 + step));
      // Sum over ranks r % 2 and r % 2 + 2.
      EXPECT_EQ(last(in[gradients]), static_cast<float>(2 * (r % 2) + 2 + 2 * step));
      EXPECT_EQ(last(in[weights]), last(in[gradients]));
      EXPECT_EQ(last(out[message_in]), static_cast<float>((r + 3) % ranks + step));
    }
  };
  with_engines(ranks, body, options);
}

// In the all-to-all, ranks 0 and 2 exchange nothing with each other. Rank 2 calls the all-to-all only after its sum of
// gradients is done. Rank 0, which exchanges rows with rank 1, must not delay this sum in favour of the all-to-all.
TEST(CommEngine, ExchangeWithoutRowsDoesNotDelayASum) {
  CommEngine::Options options = small_rounds;
  options.limits = {.round_bytes = 1 << 15, .window_bytes = 1 << 16, .low_window_bytes = 1 << 15};
  options.guards.watchdog_seconds = 20;
  const auto body = [](const ProcessGroup& world) {
    DeviceContext context;
    const int r = world.rank();
    const auto ep = world.split(0, r, TrafficClass::ep, "ep"), dp = world.split(r == 1, r, TrafficClass::dp, "dp");
    constexpr int64_t n = 1 << 18;
    const std::vector<int64_t> rows = r == 1 ? std::vector{n, int64_t{0}, n} : std::vector{int64_t{0}, n, int64_t{0}};
    const Tensor in = Tensor::zeros({r == 1 ? 2 * n : n}, Dtype::f32, context), out = Tensor::like(in),
                 gradients = Tensor::zeros({n}, Dtype::f32, context);
    InlineStream stream;
    Event summed;
    if (r != 1) summed = dp->all_reduce(gradients, Reduce::sum, stream);
    if (r == 2) summed.wait();
    ep->all_to_all(out, in, {rows, rows}, stream).wait();
    summed.wait();
  };
  with_engines(3, body, options);
}

// Messages arrive only at every 300th poll of a rank. While a rank computes, the engine sleeps for up to half a
// millisecond between polls. A sum that waits for 300 polls would take more than 0.1 s if the engine also slept while
// the rank waits.
TEST(CommEngine, PollsOftenWhileTheRanksThreadWaitsForALaneThatWaits) {
  constexpr int ranks = 2;
  const auto wires = std::make_shared<Wires>();
  std::array<double, ranks> least{1e9, 1e9};  // seconds of the fastest sum: other programs may delay some sums
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      CommEngine engine([&] { return std::make_unique<LoopbackTransport>(wires, rank, ranks, 300); }, small_rounds);
      const EngineGroup world(engine, TrafficClass::control, "world");
      const RankThread rank_thread(*engine.meter());
      DeviceContext context;
      InlineStream here;
      const auto lane = device::make_worker_stream("lane");
      for (int i = 0; i < 10; ++i) {
        const Tensor sum = Tensor::zeros({8}, Dtype::f32, context);
        const double begin = now();
        lane->wait(world.all_reduce(sum, Reduce::sum, here));
        lane->record().wait();
        least[rank] = std::min(least[rank], now() - begin);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const double seconds : least) EXPECT_LT(seconds, 0.1);
}

TEST(CommEngine, GroupsReportWhetherTheyCrossNodes) {
  with_engines(4, [](const ProcessGroup& world) {
    EXPECT_EQ(world.node_of_rank(), (std::vector{0, 0, 1, 1}));
    EXPECT_TRUE(world.crosses_nodes());
    EXPECT_FALSE(world.split(world.rank() / 2, 0, TrafficClass::tp, "tp")->crosses_nodes());
    const auto across = world.split(world.rank() % 2, -world.rank(), TrafficClass::dp, "dp");
    EXPECT_EQ(across->node_of_rank(), (std::vector{1, 0}));
    EXPECT_EQ(world.split(world.rank(), 0, TrafficClass::ep, "ep")->node_of_rank(), std::vector{world.rank() / 2});
  });
}

TEST(CommEngine, DisagreeingRanksAreNamedWithTheirCallsOnRequest) {
  const Guards checks{.watchdog_seconds = 10, .check_collectives = true};
  const auto disagreement = [&](const std::function<Event(const ProcessGroup&, Device, Stream&)>& call) {
    return failure_on_rank_0(2, checks, [&](const ProcessGroup& world) {
      DeviceContext context;
      InlineStream stream;
      world.barrier(stream).wait();
      call(world, context, stream).wait();
    });
  };
  const auto expect = [](const std::string& text, const std::string& mine, const std::string& theirs) {
    EXPECT_EQ(text.find("[world] ranks disagree about operation 1: rank 0 calls " + mine + " at comm/engine_test.cpp:"),
              0u)
        << text;
    EXPECT_NE(text.find(", rank 1 calls " + theirs + " at comm/engine_test.cpp:"), std::string::npos) << text;
  };
  expect(disagreement([](auto& world, auto d, auto& s) {
           const Tensor x = Tensor::zeros({4}, Dtype::f32, d);
           return world.rank() ? world.broadcast(x, 0, s) : world.all_reduce(x, Reduce::sum, s);
         }),
         "all_reduce of f32 [4]", "broadcast of f32 [4] from 0");
  expect(disagreement([](auto& world, auto d, auto& s) {
           return world.all_reduce(Tensor::zeros({4 + world.rank()}, Dtype::f32, d), Reduce::sum, s);
         }),
         "all_reduce of f32 [4]", "all_reduce of f32 [5]");
  expect(disagreement([](auto& world, auto d, auto& s) {
           return world.all_reduce(Tensor::zeros({4}, world.rank() ? Dtype::i64 : Dtype::f64, d), Reduce::sum, s);
         }),
         "all_reduce of f64 [4]", "all_reduce of i64 [4]");
  expect(disagreement([](auto& world, auto d, auto& s) {
           const Tensor in = Tensor::zeros({2, 3}, Dtype::bf16, d), out = Tensor::zeros({3, 3}, Dtype::bf16, d);
           return world.rank() ? world.all_to_all(out, in, {{1, 1}, {2, 1}}, s)
                               : world.all_to_all(out, in, {{1, 1}, {1, 2}}, s);
         }),
         "all_to_all of bf16 [2, 3]", "all_to_all of bf16 [2, 3]");
}

TEST(CommEngine, UnawaitedOperationsAreDoneAtTheEnd) {
  DeviceContext context;
  std::vector<Tensor> sums;
  for (int r = 0; r < 2; ++r) sums.push_back(Tensor::zeros({100000}, Dtype::f32, context));
  with_engines(2, [&](const ProcessGroup& world) {
    InlineStream stream;
    const Tensor& x = sums[world.rank()];
    x.data<float>()[99999] = 1;
    world.all_reduce(x, Reduce::sum, stream);
  });
  for (const Tensor& x : sums) EXPECT_EQ(x.data<float>()[99999], 2);
}

TEST(CommEngine, EndWaitsForStreamOrderedOperations) {
  DeviceContext context;
  std::vector<Tensor> sums;
  std::vector<std::unique_ptr<Stream>> lanes;
  for (int r = 0; r < 2; ++r) {
    sums.push_back(Tensor::zeros({100000}, Dtype::f32, context));
    lanes.push_back(device::make_worker_stream("lane"));
  }
  Gate gate;
  std::thread later;
  with_engines(2, [&](const ProcessGroup& world) {
    const Tensor& x = sums[world.rank()];
    Stream& lane = *lanes[world.rank()];
    lane.run([&] {
      gate.wait();
      x.data<float>()[99999] = 1;
    });
    world.all_reduce(x, Reduce::sum, lane);
    if (world.rank() == 0)
      later = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // an engine that did not wait would end by then
        gate.pass();
      });
  });
  later.join();
  for (const Tensor& x : sums) EXPECT_EQ(x.data<float>()[99999], 2);
}

// A stream reaches an operation after the operation's engine has failed and been destroyed.
TEST(CommEngine, LateStreamWorkIsDroppedAfterAFailedEngineEnds) {
  DeviceContext context;
  std::array<std::unique_ptr<Stream>, 2> lanes;
  for (auto& lane : lanes) lane = device::make_worker_stream("lane");
  Gate gate;
  with_engines(2, [&](const ProcessGroup& world) {
    InlineStream stream;
    Stream& lane = *lanes[world.rank()];
    lane.run([&] { gate.wait(); });
    const Event late = world.barrier(lane);
    world.receive(Tensor::zeros({LoopbackTransport::broken_size}, Dtype::u8, context), 1 - world.rank(), stream);
    EXPECT_THROW(late.wait(), Error);
  });
  gate.pass();
  for (auto& lane : lanes) lane->synchronize();
}

TEST(CommEngine, LackOfMemoryInATransportIsReportedAsAResourceError) {
  LoopbackTransport::aborted = 0;
  with_engines(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const Tensor x = Tensor::zeros({LoopbackTransport::costly_size}, Dtype::u8, context);
    try {
      world.receive(x, 1 - world.rank(), stream).wait();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_NE(std::string(e.what()).find(cat(" on rank ", world.rank(), ": out of memory")), std::string::npos)
          << e.what();
    }
  });
  EXPECT_EQ(LoopbackTransport::aborted, static_cast<int>(ExitCode::resource));
}

TEST(CommEngine, FailedTransportFailsPendingAndLaterOperationsAndEndsTheJob) {
  LoopbackTransport::aborted = 0;
  with_engines(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const Tensor bad = Tensor::zeros({13}, Dtype::u8, context), good = Tensor::zeros({4}, Dtype::f32, context);
    const Event first = world.all_reduce(bad, Reduce::sum, stream),
                second = world.all_reduce(good, Reduce::sum, stream);
    try {
      first.wait();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      EXPECT_EQ(std::string(e.what()),
                cat("[world] all_reduce of u8 [13] on rank ", world.rank(), ": the wire is cut"));
    }
    EXPECT_THROW(second.wait(), Error);
    EXPECT_THROW(world.barrier(stream).wait(), Error);
  });
  EXPECT_EQ(LoopbackTransport::aborted, static_cast<int>(ExitCode::communication));
}

TEST(CommEngine, EarlierErrorOnTheStreamFailsTheOperation) {
  with_engines(1, [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream& lane = context.stream(device::Lane::inter);
    lane.run([] { fail(ExitCode::numeric, "NaN before the exchange"); });
    try {
      world.barrier(lane).wait();
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "NaN before the exchange");
    }
  });
}

TEST(CommEngine, FailureToConnectReachesTheCaller) {
  EXPECT_THROW(CommEngine([]() -> std::unique_ptr<Transport> { fail(ExitCode::usage, "no launcher"); }, {}), Error);
}

}  // namespace
}  // namespace hexad::comm
