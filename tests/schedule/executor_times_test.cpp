// Times of the tasks of an executed graph.
#include "framework/schedule/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "framework/base/clock.h"
#include "framework/device/emulated/emulated_queue.h"
#include "framework/schedule/layer_clock.h"
#include "tests/schedule/executor_fixture.h"

namespace hexad::schedule {
namespace {

INSTANTIATE_TEST_SUITE_P(Lanes, Executor, testing::Bool(),
                         [](const auto& i) { return i.param ? "Workers" : "Inline"; });

TEST_P(Executor, TimesFollowDependencies) {
  Chain chain(true);
  std::vector<TaskTime> times;
  const double before = now();
  execute(chain.graph, context, &times);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_LE(before, times[0].begin);
  for (const TaskTime& t : times) EXPECT_LE(t.begin, t.end);
  EXPECT_LE(times[0].end, times[1].begin);
  EXPECT_LE(times[1].end, now());
}

TEST_P(Executor, TaskBeginsAtTheEndOfItsPredecessorsNotAtItsIssue) {
  auto state = Event::make_state();
  std::atomic<bool> issued = false;
  std::atomic<double> arrived = 0;
  std::thread peer;
  TaskGraph g;
  const TaskId receive = g.add({Lane::copy, "receive"}, {}, [&](Stream&) {
    peer = std::thread([&] {
      if (GetParam()) issued.wait(false);  // without threads, "send" is issued only after "receive" is done
      arrived = now();
      complete(state);
    });
    return Event(state);
  });
  g.add({Lane::inter, "send"}, {receive}, [&](Stream&) {
    issued = true;
    issued.notify_all();
    return Event{};
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  peer.join();
  EXPECT_GE(times[0].end, arrived);
  EXPECT_GE(times[1].begin, arrived);
}

TEST_P(Executor, TaskEndsBeforeItsSuccessorsBeginEvenIfRecordedLate) {
  auto state = Event::make_state();
  std::atomic<bool> used = false;
  std::thread peer;
  TaskGraph g;
  const TaskId receive = g.add({Lane::inter, "receive"}, {}, [&](Stream&) {
    // Delays the completing thread after it wakes the waiters and before it records the end.
    Event(state).then([&] { used.wait(false); });
    peer = std::thread([&] { complete(state); });
    return Event(state);
  });
  g.add({Lane::compute, "use"}, {receive}, [&](Stream& s) {
    s.run([&] {
      used = true;
      used.notify_all();
    });
    return Event{};
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  peer.join();
  EXPECT_LE(times[0].begin, times[0].end);
  EXPECT_LE(times[0].end, times[1].begin);
}

TEST_P(Executor, AsynchronousPartsOfALaneAreTimedOneAfterTheOther) {
  auto first = Event::make_state(), second = Event::make_state();
  std::atomic<bool> all_issued = false;
  std::thread peer;
  TaskGraph g;
  g.add({Lane::inter, "D0"}, {}, [&](Stream&) { return Event(first); });
  g.add({Lane::inter, "D1"}, {}, [&](Stream& s) {
    s.run([&] {  // from this point on, D1 is posted and D0 is in flight
      peer = std::thread([&] {
        complete(first);
        all_issued.wait(false);
        complete(second);
      });
    });
    return Event(second);
  });
  g.add({Lane::compute, "E"}, {}, [&](Stream&) {
    all_issued = true;
    all_issued.notify_all();
    return Event{};
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  peer.join();
  EXPECT_LT(times[0].begin, times[0].end);
  EXPECT_EQ(times[1].begin, times[0].end);
  EXPECT_LE(times[1].begin, times[1].end);
}

TEST_P(Executor, TaskEndsWithTheLaterOfItsTwoParts) {
  auto state = Event::make_state();
  std::atomic<double> passed = 0;
  TaskGraph g;
  g.add({Lane::inter, "send"}, {}, [&](Stream& s) {
    s.run([&] {  // the asynchronous part ends before the work on the stream does
      complete(state);
      passed = now();
    });
    return Event(state);
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  EXPECT_GE(times[0].end, passed);
}

TEST(ExecutorOnADevice, MeasuringDoesNotWaitForTheDevice) {
  DeviceContext context{{.kind = device::DeviceKind::emulated}};
  std::atomic<bool> open = false;
  TaskGraph g;
  const TaskId send = g.add({Lane::inter, "send"}, {}, [&](Stream& s) {
    Stream& wire = context.stream(Lane::copy);  // replaces the stream of a collective
    wire.wait(s.record());
    device::emulated::emulated_stream(wire).launch({}, [&] { open.wait(false); });
    return wire.record();
  });
  g.add({Lane::compute, "use"}, {send}, [](Stream&) { return Event{}; });
  const ReadTimes times = execute_measured(g, context);
  const double issued = now();
  open = true;
  open.notify_all();
  const std::vector<TaskTime> read = times();
  EXPECT_GE(read[0].end, issued);
  EXPECT_GE(read[1].begin, read[0].end);
}

TEST(StreamTimer, TimesTheWorkBetweenItsMarks) {
  const auto lane = device::make_worker_stream("timed");
  const double before = now();
  StreamTimer timer(*lane);
  EXPECT_THROW(timer.read(), std::logic_error) << "the end is unknown before stop()";
  double inside = 0;
  lane->run([&] { inside = now(); });
  timer.stop(*lane);
  const TaskTime time = timer.read();
  EXPECT_LE(before, time.begin);
  EXPECT_LE(time.begin, inside);
  EXPECT_LE(inside, time.end);
}

}  // namespace
}  // namespace hexad::schedule
