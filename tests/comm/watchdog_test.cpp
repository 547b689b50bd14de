// Reports of an engine on operations that do not end: the rank to blame, and the reason.
#include <gtest/gtest.h>

#include "tests/comm/loopback.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;
using namespace std::chrono_literals;

TEST(Watchdog, NamesTheOperationAndTheMissingRank) {
  const std::string text = failure_on_rank_0(4, {.watchdog_seconds = 0.1}, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const auto half = world.split(world.rank() % 2, 0, TrafficClass::dp, "dp");
    half->barrier(stream).wait();
    const Tensor x = Tensor::zeros({4}, Dtype::f32, context);
    if (world.rank() != 2) half->all_reduce(x, Reduce::sum, stream).wait();
  });
  EXPECT_EQ(text.substr(0, text.find(" at ")),
            "hang: 0.1 s in operation 1 of group dp (2 ranks), all_reduce of f32 [4]");
  EXPECT_NE(text.find("comm/watchdog_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find(": no message arrives from rank 2"), std::string::npos) << text;
}

TEST(Watchdog, ReportsUnfinishedWorkThatPrecedesTheOperation) {
  const std::string text = failure_on_rank_0(2, {.watchdog_seconds = 0.1}, [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream& lane = context.stream(device::Lane::inter);
    std::atomic<bool> end = false;
    if (world.rank() == 0) lane.run([&] { end.wait(false); });
    try {
      world.barrier(lane).wait();
    } catch (...) {
      end = true;
      end.notify_all();
      lane.synchronize();
      throw;
    }
  });
  EXPECT_NE(text.find("the preceding work on this rank is not done"), std::string::npos) << text;
}

// Makes rank 0 wait for rank 1, and rank 1 for rank 2.
void wait_in_a_chain(const ProcessGroup& world, const std::function<void()>& rank_2) {
  DeviceContext context;
  const int r = world.rank();
  const auto low = world.split(r < 2, 0, TrafficClass::dp, "low"),
             high = world.split(r > 0, 0, TrafficClass::tp, "high");
  InlineStream stream;
  if (r == 2) rank_2();
  if (r > 0) high->barrier(stream).wait();
  if (r < 2) low->barrier(stream).wait();
}

// Runs wait_in_a_chain() while rank 2 hangs outside of operations. Returns the report of rank 0.
std::string failure_in_a_chain() {
  std::atomic<bool> over = false;
  return failure_on_rank_0(3, {.watchdog_seconds = 0.5}, [&](const ProcessGroup& world) {
    try {
      wait_in_a_chain(world, [&] { over.wait(false); });
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  });
}

TEST(Watchdog, FollowsTheChainToTheSilentRank) {
  LoopbackTransport::deaf = 2;
  const std::string text = failure_in_a_chain();
  LoopbackTransport::deaf = -1;
  EXPECT_NE(text.find("; to blame: rank 2 does not answer"), std::string::npos) << text;
}

TEST(Watchdog, BlamesARankThatHangsInItsOwnCode) {
  const std::string text = failure_in_a_chain();
  EXPECT_NE(text.find("; to blame: rank 2 waits for no other rank: it computes, or hangs in its own code; its last "
                      "operation, all_gather at comm/"),
            std::string::npos)
      << text;
}

// Runs file work on rank 2 for five times the watchdog's limit. The work makes steady progress if `moves` is true, and
// no progress if `moves` is false. Returns rank 0's failure, or "no failure".
std::string end_of_file_work(bool moves) {
  CommEngine::Options options = small_rounds;
  options.guards.watchdog_seconds = 0.6;
  std::string text = "no failure";
  std::atomic<bool> over = false;
  with_engines(
      3,
      [&](const ProcessGroup& world, const base::FileWork& work) {
        try {
          wait_in_a_chain(world, [&] {
            const auto phase = work.announce("saving");
            work.moved("shard", 1);
            for (int i = 0; i < 30 && !over; ++i) {
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              if (moves) work.moved("shard", 1);
            }
          });
        } catch (const Error& e) {
          over = true;
          if (world.rank() == 0) text = e.what();
        }
      },
      options);
  return text;
}

TEST(Watchdog, ActiveFileWorkAtTheEndOfAChainIsNoHang) { EXPECT_EQ(end_of_file_work(true), "no failure"); }

TEST(Watchdog, StalledFileWorkIsReportedWithItsFile) {
  const std::string text = end_of_file_work(false);
  EXPECT_NE(text.find("; to blame: rank 2 has made no progress in its file work for 0."), std::string::npos) << text;
  EXPECT_NE(text.find(" s: it is saving: shard, 1 bytes done"), std::string::npos) << text;
}

// Asks the job to end while rank 0 waits for rank 1, which arrives after `late`. Returns the error of rank 0, or "no
// failure".
std::string failure_of_a_stopped_job(std::chrono::milliseconds late) {
  CommEngine::Options options = small_rounds;
  options.guards.watchdog_seconds = 0;
  options.asked_to_end = [] { return true; };
  std::string text = "no failure";
  std::atomic<bool> over = false;
  with_engines(
      2,
      [&](const ProcessGroup& world) {
        InlineStream stream;
        try {
          for (auto waited = 0ms; world.rank() == 1 && waited < late && !over; waited += 50ms)
            std::this_thread::sleep_for(50ms);
          world.barrier(stream).wait();
        } catch (const Error& e) {
          over = true;
          EXPECT_EQ(e.code(), ExitCode::peer_lost);
          if (world.rank() == 0) text = e.what();
        }
      },
      options);
  return text;
}

// Simulates a batch system that ends the job after the node of rank 1 has died.
TEST(AskedToEnd, SilentRankIsLost) {
  LoopbackTransport::deaf = 1;
  const std::string text = failure_of_a_stopped_job(20s);
  LoopbackTransport::deaf = -1;
  EXPECT_EQ(text.substr(0, text.find(" at ")),
            "this rank was asked to end, but a rank is lost in operation 0 of group world (2 ranks), barrier");
  EXPECT_NE(text.find(": no message arrives from rank 1; to blame: rank 1 does not answer"), std::string::npos) << text;
}

TEST(AskedToEnd, SlowRankIsNotLost) { EXPECT_EQ(failure_of_a_stopped_job(7s), "no failure"); }

TEST(Watchdog, ToleratesALateRankWhenDisabled) {
  const auto late = [](const ProcessGroup& world) {
    InlineStream stream;
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    world.barrier(stream).wait();
  };
  EXPECT_EQ(failure_on_rank_0(2, {.watchdog_seconds = 0}, late), "no failure");
}

TEST(Watchdog, ChecksStreamOrderedOperationsAtTheEnd) {
  LoopbackTransport::aborted = 0;
  CommEngine::Options options = small_rounds;
  options.guards.watchdog_seconds = 0.1;
  const auto lane = device::make_worker_stream("lane");
  Gate gate;
  with_engines(
      1,
      [&](const ProcessGroup& world) {
        lane->run([&] { gate.wait(); });
        world.barrier(*lane);
      },
      options);
  gate.pass();
  lane->synchronize();
  EXPECT_EQ(LoopbackTransport::aborted, static_cast<int>(ExitCode::communication));
}

}  // namespace
}  // namespace hexad::comm
