// Detection and reports of failures between ranks with cards. A late rank is no failure.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "framework/device/cuda/cuda_stream.h"
#include "nccl_ranks.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::comm {

using namespace base;
namespace {

using namespace std::chrono_literals;

constexpr double watchdog = 1;

Tensor floats(const CardWorld& w, int64_t n) { return Tensor::zeros({n}, Dtype::f32, w.context); }

// Exception that ends a rank while its peers still need this rank.
struct Leaves {};

// Runs `body`, whose operations hang or fail, on n ranks. On each rank that does not throw Leaves, expects the watchdog
// to find a failure, and later launches to fail. Returns all failures.
std::vector<Error> failures_of(int n, const std::function<void(const CardWorld&, Failures&)>& body) {
  Failures failures;
  const auto begin = std::chrono::steady_clock::now();
  const auto run = [&](const CardWorld& w) {
    try {
      body(w, failures);
    } catch (const Error&) {  // the hang was in a call on the host
    }
    EXPECT_TRUE(failures.wait(w.world.rank())) << "the watchdog found no failure on rank " << w.world.rank();
    w.context.compute().synchronize();  // an abort releases waiting work
    EXPECT_THROW(w.world.all_reduce(floats(w, 1), Reduce::sum, w.context.compute()), Error);
  };
  try {
    with_cards(n, run, {.watchdog_seconds = watchdog}, &failures);
  } catch (const Leaves&) {
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  return failures.all();
}

// Expects at least one failure. Every failure must have this code and contain all `parts`.
void expect_texts(const std::vector<Error>& failures, ExitCode code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(failures.empty());
  for (const Error& e : failures) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string_view(e.what()).find(part), std::string_view::npos) << e.what();
  }
}

TEST(NcclFailures, CrossedOrderOfGroupsIsReportedAsAHang) {
  const auto failures = failures_of(2, [](const CardWorld& w, Failures&) {
    const auto a = w.world.split(0, w.world.rank(), TrafficClass::tp, "a");
    const auto b = w.world.split(0, w.world.rank(), TrafficClass::tp, "b");
    const Tensor x = floats(w, 100), y = floats(w, 100);
    Stream& stream = w.context.compute();
    a->all_reduce(x, Reduce::sum, stream).wait();
    b->all_reduce(y, Reduce::sum, stream).wait();
    const Event first = (w.world.rank() ? b : a)->all_reduce(x, Reduce::sum, stream);
    (w.world.rank() ? a : b)->all_reduce(y, Reduce::sum, stream);
    first.wait();  // the abort ends this wait
  });
  expect_texts(failures, ExitCode::communication,
               {"hang: 1 s in operation 1 of group ", " (rank ",
                " of 2), all_reduce of f32 [100] at comm/nccl_failures_test.cpp:"});
}

TEST(NcclFailures, ExchangeSkippedByARankWithoutRowsIsReported) {
  const auto failures = failures_of(3, [](const CardWorld& w, Failures& found) {
    const auto ep = w.world.split(0, w.world.rank(), TrafficClass::ep, "ep");
    const int me = w.world.rank();
    Splits splits{.send = {0, 0, 0}, .receive = {0, 0, 0}};
    if (me < 2) splits.send[1 - me] = splits.receive[1 - me] = 5;
    const Tensor in = floats(w, me < 2 ? 5 : 0), out = floats(w, me < 2 ? 5 : 0);
    Stream& stream = w.context.compute();
    ep->all_to_all(out, in, splits, stream).wait();
    if (me == 2) {
      EXPECT_TRUE(found.wait(0) && found.wait(1));
      throw Leaves();
    }
    ep->all_to_all(out, in, splits, stream).wait();
  });
  expect_texts(failures, ExitCode::communication,
               {"hang: 1 s in operation 1 of group ep (rank ", " of 3), all_to_all of f32 [5]"});
}

TEST(NcclFailures, SplitInAnotherOrderIsReported) {
  std::atomic<int> found = 0;
  with_cards(2, [&](const CardWorld& w) {
    try {
      w.world.split(0, w.world.rank(), TrafficClass::tp, w.world.rank() ? "dp" : "tp");
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      EXPECT_EQ(std::string(e.what()),
                cat(w.world.rank() ? "[world] rank 1 splits off group dp, but rank 0 splits off group tp"
                                   : "[world] rank 0 splits off group tp, but rank 1 splits off group dp",
                    "; expected splits into the same groups on all ranks, in the same order"));
      ++found;
    }
  });
  EXPECT_EQ(found, 2);
}

TEST(NcclFailures, DeadRankIsReported) {
  const auto failures = failures_of(3, [](const CardWorld& w, Failures&) {
    const Tensor x = floats(w, 100);
    w.world.all_reduce(x, Reduce::sum, w.context.compute()).wait();
    if (w.world.rank() == 1) throw Leaves();
    w.world.all_reduce(x, Reduce::sum, w.context.compute()).wait();
  });
  expect_texts(failures, ExitCode::communication,
               {"hang: 1 s in operation 1 of group world (rank ", " of 3), all_reduce of f32 [100]"});
}

TEST(NcclFailures, LostPeerIsReportedIfTheNetworkDetectsIt) {
  std::atomic<bool> launched = false;
  const auto failures = failures_of(2, [&](const CardWorld& w, Failures&) {
    const Tensor x = floats(w, 100);
    w.world.all_reduce(x, Reduce::sum, w.context.compute()).wait();
    if (w.world.rank() == 1) {
      launched.wait(false);
      cuda_double::lose_nccl_ranks(1);
      throw Leaves();
    }
    w.world.all_reduce(x, Reduce::sum, w.context.compute());
    launched = true, launched.notify_all();
  });
  expect_texts(failures, ExitCode::peer_lost, {"in operation 1 of group world (rank 0 of 2)", "remote process exited"});
}

TEST(NcclFailures, FirstMessageWithoutItsPeerIsReported) {
  const auto failures = failures_of(2, [](const CardWorld& w, Failures& found) {
    const auto tp = w.world.split(0, w.world.rank(), TrafficClass::tp, "tp");
    if (w.world.rank() == 0) {
      tp->send(floats(w, 4), 1, w.context.compute());
    } else {
      EXPECT_TRUE(found.wait(0));
      throw Leaves();
    }
  });
  expect_texts(failures, ExitCode::communication, {"hang: 1 s in splitting tp up from communicator tp"});
}

// Makes rank 0 hang in a sum that rank 1 never calls. on_failure is not set, as in a user's program.
void hang_in_a_sum() {
  with_ranks(2, [](const ProcessGroup& threads) {
    device::DeviceContext context({.kind = device::DeviceKind::cuda, .place = threads.rank()});
    const auto world = make_device_group(threads, context, {.watchdog_seconds = watchdog});
    const Tensor x = Tensor::zeros({100}, Dtype::f32, context);
    world->all_reduce(x, Reduce::sum, context.compute()).wait();
    if (threads.rank() == 0) world->all_reduce(x, Reduce::sum, context.compute());
    std::this_thread::sleep_for(20s);
  });
}

TEST(NcclFailuresDeathTest, EndTheJobWithTheirExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      hang_in_a_sum(), testing::ExitedWithCode(static_cast<int>(ExitCode::communication)),
      "hexad: .nccl. rank 0: hang: 1 s in operation 1 of group world .rank 0 of 2., all_reduce of f32 .100. at ");
}

TEST(NcclFailures, LateRankIsNoHang) {
  with_cards(2,
             [](const CardWorld& w) {
               const Tensor x = floats(w, 100);
               Stream& stream = w.context.compute();
               w.world.all_reduce(x, Reduce::sum, stream).wait();
               if (w.world.rank() == 1) std::this_thread::sleep_for(500ms);
               w.world.all_reduce(x, Reduce::sum, stream).wait();
             },
             {.watchdog_seconds = 20});
}

}  // namespace
}  // namespace hexad::comm
