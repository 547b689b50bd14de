// Events and streams. No test depends on time, because threads wait for each other.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/device/context.h"

namespace hexad::device {
namespace {

std::exception_ptr error(const char* message) { return std::make_exception_ptr(std::runtime_error(message)); }

std::string message_of_wait(const Event& e) {
  try {
    e.wait();
  } catch (const std::runtime_error& failure) {
    return failure.what();
  }
  return "no error";
}

TEST(Event, IsDoneIfDefaultConstructed) {
  const Event e;
  EXPECT_TRUE(e.done());
  e.wait();
  bool called = false;
  e.then([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST(Event, IsDoneOnceCompleted) {
  const auto state = Event::make_state();
  const Event e(state), copy = e;
  EXPECT_FALSE(e.done());
  complete(state);
  EXPECT_TRUE(e.done());
  EXPECT_TRUE(copy.done());
  e.wait();
}

TEST(Event, WaitBlocksUntilAnotherThreadCompletes) {
  const auto state = Event::make_state();
  const Event e(state);
  int written = 0;
  std::thread worker([&] {
    written = 7;
    complete(state);
  });
  e.wait();
  EXPECT_EQ(written, 7);
  worker.join();
}

TEST(Event, WaitRethrowsTheFailureEveryTime) {
  const auto state = Event::make_state();
  const Event e(state);
  complete(state, error("link down"));
  EXPECT_TRUE(e.done());
  EXPECT_EQ(message_of_wait(e), "link down");
  EXPECT_EQ(message_of_wait(e), "link down");
}

TEST(Event, KeepsOwnersUntilItIsDone) {
  const auto state = Event::make_state();
  const Event e(state);
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = owner;
  e.keep(owner);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  complete(state);
  EXPECT_TRUE(watch.expired());
}

// A thread that resumes may need the memory that the operation has used.
TEST(Event, IsDoneOnlyAfterItHasReleasedItsOwners) {
  const auto state = Event::make_state();
  const Event e(state);
  std::vector<bool> done;
  const auto owner = [&](std::shared_ptr<const void> next) {
    return std::shared_ptr<int>(new int(1), [&done, &e, next](const int* p) {
      done.push_back(e.done());
      if (next) e.keep(next);  // this owner is added while the event releases its owners
      delete p;
    });
  };
  e.keep(owner(owner(nullptr)));
  complete(state);
  EXPECT_EQ(done, (std::vector<bool>{false, false}));
  EXPECT_TRUE(e.done());
}

TEST(Event, KeepsNoOwnerOnceDone) {
  const auto state = Event::make_state();
  complete(state);
  auto owner = std::make_shared<int>(1);
  Event(state).keep(owner);
  EXPECT_EQ(owner.use_count(), 1);
}

// Device allocators reuse memory in the order of issue. An event that kept memory would delay this reuse until the
// host drops the event.
TEST(Event, KeepsNoOwnerOnADevice) {
  struct Unpassed final : DeviceMark {
    bool passed() const override { return false; }
    void wait() const override {}
    double passed_at() const override { return 0; }
  };
  const auto owner = std::make_shared<int>(1);
  const Event e = Event::at(std::make_shared<Unpassed>());
  e.keep(owner);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Event, ThenRunsOnceAfterCompletionInTheOrderGiven) {
  const auto state = Event::make_state();
  const Event e(state);
  std::vector<int> order;
  e.then([&] { order.push_back(1); });
  e.then([&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  complete(state);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  e.then([&] { order.push_back(3); });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Event, ThenRunsAfterAFailureAsWell) {
  const auto state = Event::make_state();
  bool called = false;
  Event(state).then([&] { called = true; });
  complete(state, error("link down"));
  EXPECT_TRUE(called);
}

TEST(Event, WaitHookRunsOnceOnTheFirstWaiterAndNotAfterCompletion) {
  const auto state = Event::make_state();
  const Event e(state);
  int calls = 0;
  on_wait(state, [&] { ++calls, complete(state); });
  e.wait();
  e.wait();
  EXPECT_EQ(calls, 1);
  on_wait(state, [&] { ++calls; });
  e.wait();
  EXPECT_EQ(calls, 1);
}

TEST(InlineStream, RunsImmediatelyOnTheCallingThread) {
  InlineStream s;
  std::thread::id where;
  s.run([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(s.record().done());
  EXPECT_THROW(s.run([] { throw std::runtime_error("at once"); }), std::runtime_error);
}

TEST(WorkerStream, RunsInOrderOnOneOtherThread) {
  const auto s = make_worker_stream("worker");
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i)
    s->run([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  s->synchronize();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(threads[i], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(WorkerStream, DoesNotBlockTheCaller) {
  const auto s = make_worker_stream("worker");
  std::promise<void> gate;
  s->run([&] { gate.get_future().wait(); });
  const Event e = s->record();
  EXPECT_FALSE(e.done());
  gate.set_value();
  e.wait();
  EXPECT_TRUE(e.done());
}

TEST(WorkerStream, EventIsDoneBeforeLaterWork) {
  const auto s = make_worker_stream("worker");
  std::promise<void> gate;
  s->run([] {});
  const Event early = s->record();
  s->run([&] { gate.get_future().wait(); });
  early.wait();  // hangs if it waits for the later work
  gate.set_value();
  s->synchronize();
}

TEST(WorkerStream, WaitsForAnEventOfAnotherStream) {
  const auto first = make_worker_stream("first"), second = make_worker_stream("second");
  std::promise<void> gate;
  std::atomic<int> value = 0;
  first->run([&] {
    gate.get_future().wait();
    value = 1;
  });
  int seen = -1;
  second->wait(first->record());
  second->run([&] { seen = value; });
  gate.set_value();
  second->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST(WorkerStream, FailureSkipsTheRestAndReachesEveryLaterEvent) {
  const auto s = make_worker_stream("worker");
  bool ran = false;
  const Event before = s->record();
  s->run([] { throw std::runtime_error("copy failed"); });
  s->run([&] { ran = true; });
  const Event after = s->record();
  EXPECT_EQ(message_of_wait(before), "no error");
  EXPECT_EQ(message_of_wait(after), "copy failed");
  EXPECT_THROW(s->synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
}

TEST(WorkerStream, FailedEventFailsTheWaitingStream) {
  const auto first = make_worker_stream("first"), second = make_worker_stream("second");
  first->run([] { throw std::runtime_error("send failed"); });
  second->wait(first->record());
  bool ran = false;
  second->run([&] { ran = true; });
  EXPECT_EQ(message_of_wait(second->record()), "send failed");
  EXPECT_FALSE(ran);
}

TEST(WorkerStream, FinishesItsQueueBeforeItEnds) {
  int count = 0;
  {
    const auto s = make_worker_stream("a name that is longer than the kernel allows");
    for (int i = 0; i < 50; ++i) s->run([&] { ++count; });
  }
  EXPECT_EQ(count, 50);
}

TEST(WorkerStream, FreesTheClosureOfFinishedWork) {
  const auto s = make_worker_stream("worker");
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = owner;
  s->run([owner = std::move(owner)] {});
  s->run([] {});  // is done only after the first closure is destroyed
  s->synchronize();
  EXPECT_TRUE(watch.expired());
}

TEST(DeviceContext, LanesAreInlineByDefault) {
  DeviceContext plain, threaded({.worker_lanes = true});
  const auto thread_of = [](Stream& s) {
    std::thread::id id;
    s.run([&] { id = std::this_thread::get_id(); });
    s.synchronize();
    return id;
  };
  for (Lane lane : {Lane::inter, Lane::intra, Lane::copy, Lane::compute}) {
    EXPECT_EQ(thread_of(plain.stream(lane)), std::this_thread::get_id()) << name_of(lane);
    EXPECT_EQ(thread_of(threaded.stream(lane)) == std::this_thread::get_id(), lane == Lane::compute) << name_of(lane);
  }
  EXPECT_NE(thread_of(threaded.stream(Lane::inter)), thread_of(threaded.stream(Lane::copy)));
}

}  // namespace
}  // namespace hexad::device
