// Observers are called when their thread blocks in a wait, and when it resumes.
#include "framework/device/wait_observer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "framework/device/event.h"

namespace hexad::device {
namespace {

// Logs each call: 'b' for blocked(), 'r' for resumed(). After that, blocked() calls `when_blocked` if it is not empty,
// and makes it empty.
class Log final : public WaitObserver {
 public:
  void blocked() override {
    calls += 'b';
    if (const auto act = std::exchange(when_blocked, nullptr)) act();
  }
  void resumed() override { calls += 'r'; }

  std::string calls;
  std::function<void()> when_blocked;
};

TEST(WaitObserver, ReceivesBeginAndEndOfABlockedWait) {
  Log log;
  const ObservedThread observed(log);
  const auto state = Event::make_state();
  std::thread peer;
  log.when_blocked = [&] { peer = std::thread([&] { complete(state); }); };
  Event(state).wait();
  peer.join();
  EXPECT_EQ(log.calls, "br");
}

TEST(WaitObserver, LearnsTheEndOfAWaitThatThrows) {
  Log log;
  const ObservedThread observed(log);
  const auto state = Event::make_state();
  std::thread peer;
  log.when_blocked = [&] {
    peer = std::thread([&] { complete(state, std::make_exception_ptr(std::runtime_error("lost"))); });
  };
  EXPECT_THROW(Event(state).wait(), std::runtime_error);
  peer.join();
  EXPECT_EQ(log.calls, "br");
}

TEST(WaitObserver, IgnoresEventsThatAreDone) {
  Log log;
  const ObservedThread observed(log);
  const auto state = Event::make_state();
  complete(state);
  Event(state).wait();
  Event().wait();
  EXPECT_EQ(log.calls, "");
}

TEST(WaitObserver, IgnoresOtherThreads) {
  Log log;
  const ObservedThread observed(log);
  const auto state = Event::make_state();
  std::atomic<bool> waits = false;
  on_wait(state, [&] { waits = true; });
  std::thread lane([&] { Event(state).wait(); });
  while (!waits) std::this_thread::yield();
  complete(state);
  lane.join();
  EXPECT_EQ(log.calls, "");
}

TEST(WaitObserver, InnermostObserverApplies) {
  Log outer, inner;
  const ObservedThread observed(outer);
  {
    const ObservedThread nested(inner);
    const BlockedThread blocked;
  }
  EXPECT_EQ(inner.calls, "br");
  EXPECT_EQ(outer.calls, "");
  { const BlockedThread blocked; }
  EXPECT_EQ(outer.calls, "br");
}

}  // namespace
}  // namespace hexad::device
