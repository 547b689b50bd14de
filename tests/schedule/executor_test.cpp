#include "framework/schedule/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "framework/base/error.h"
#include "tests/schedule/executor_fixture.h"

namespace hexad::schedule {
namespace {

INSTANTIATE_TEST_SUITE_P(Lanes, Executor, testing::Bool(),
                         [](const auto& i) { return i.param ? "Workers" : "Inline"; });

TEST_P(Executor, DependenciesHoldAcrossLanes) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    Chain chain(true);
    execute(chain.graph, context);
    EXPECT_EQ(chain.x, 4);
  }
}

TEST_P(Executor, TaskWaitsForTheAsynchronousPartsOfItsPredecessors) {
  auto state = Event::make_state();
  std::atomic<bool> arrived = false;
  std::thread peer;
  TaskGraph g;
  const TaskId receive = g.add({Lane::inter, "receive"}, {}, [&](Stream&) {
    peer = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      arrived = true;
      complete(state);
    });
    return Event(state);
  });
  for (Lane lane : {Lane::inter, Lane::compute})  // the lane of `receive`, and another lane
    g.add({lane, "use"}, {receive}, [&](Stream& s) {
      s.run([&] { EXPECT_TRUE(arrived); });
      return Event{};
    });
  execute(g, context);
  peer.join();
}

TEST_P(Executor, ReturnsOnlyWhenAsynchronousPartsAreDone) {
  auto state = Event::make_state();
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    complete(state);
  });
  TaskGraph g;
  g.add({Lane::inter, "send"}, {}, [&](Stream&) { return Event(state); });
  execute(g, context);
  EXPECT_TRUE(Event(state).done());
  peer.join();
}

TEST_P(Executor, ErrorOfATaskReachesTheCaller) {
  for (Lane lane : {Lane::compute, Lane::inter}) {
    DeviceContext fresh{{.worker_lanes = GetParam()}};
    TaskGraph g;
    g.add({lane, "fails"}, {}, [](Stream& s) {
      s.run([] { base::fail(base::ExitCode::numeric, "loss is NaN"); });
      return Event{};
    });
    try {
      execute(g, fresh);
      FAIL() << "no error was thrown on lane " << name_of(lane) << "; expected the error of the task";
    } catch (const base::Error& e) {
      EXPECT_STREQ(e.what(), "loss is NaN");
      EXPECT_EQ(e.code(), base::ExitCode::numeric);
    }
  }
}

TEST_P(Executor, ErrorOfAnAsynchronousPartReachesTheCaller) {
  TaskGraph g;
  g.add({Lane::inter, "lost"}, {}, [](Stream&) {
    auto state = Event::make_state();
    complete(state, std::make_exception_ptr(base::Error(base::ExitCode::peer_lost, "rank 3 is gone")));
    return Event(state);
  });
  EXPECT_THROW(execute(g, context), base::Error);
}

TEST_P(Executor, LateTaskIsIssuedByItsLaneAfterItsPredecessors) {
  const auto state = Event::make_state();
  std::atomic<bool> arrived = false;
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    arrived = true;
    complete(state);
  });
  std::thread::id issued_by;
  TaskGraph g;
  const TaskId receive = g.add({Lane::inter, "receive"}, {}, [&](Stream&) { return Event(state); });
  const TaskId use = g.add(late(Lane::copy, "use"), {receive}, [&](Stream&) {
    EXPECT_TRUE(arrived);
    issued_by = std::this_thread::get_id();
    return Event{};
  });
  bool after = false;
  g.add(late(Lane::compute, "after"), {use}, [&](Stream&) {
    EXPECT_NE(issued_by, std::thread::id());
    after = true;
    return Event{};
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  peer.join();
  EXPECT_TRUE(after);
  EXPECT_EQ(issued_by == std::this_thread::get_id(), !GetParam());
  for (size_t i = 1; i < times.size(); ++i) {
    EXPECT_LE(times[i].begin, times[i].end);
    EXPECT_GE(times[i].begin, times[i - 1].end);
  }
}

TEST_P(Executor, ErrorOfALateTaskOrOfItsAsynchronousPartReachesTheCaller) {
  const auto error_of_peer = std::make_exception_ptr(base::Error(base::ExitCode::peer_lost, "rank 1 is gone"));
  for (const bool asynchronous : {false, true}) {
    DeviceContext fresh{{.worker_lanes = GetParam()}};
    std::thread peer;
    TaskGraph g;
    const TaskId fails = g.add(late(Lane::inter, "fails"), {}, [&](Stream&) {
      if (!asynchronous) base::fail(base::ExitCode::peer_lost, "rank 1 is gone");
      const auto state = Event::make_state();
      peer = std::thread([state, error_of_peer] { complete(state, error_of_peer); });
      return Event(state);
    });
    g.add(late(Lane::compute, "use"), {fails}, [](Stream&) { return Event{}; });
    EXPECT_THROW(execute(g, fresh), base::Error) << "asynchronous: " << asynchronous;
    if (peer.joinable()) peer.join();
  }
}

// A lane that has failed skips its remaining tasks. A lane that waits for a skipped task does not wait forever, and
// execute() still throws the first error.
TEST_P(Executor, SkippedTasksDoNotHideTheErrorOfALateTask) {
  for (const bool uses : {false, true}) {
    DeviceContext fresh{{.worker_lanes = GetParam()}};
    bool issued = false;
    TaskGraph g;
    g.add(late(Lane::copy, "fails"), {}, [](Stream&) -> Event { throw std::runtime_error("no room"); });
    const TaskId skipped = g.add(late(Lane::copy, "skipped"), {}, [&](Stream&) {
      issued = true;
      return Event{};
    });
    if (uses) g.add(late(Lane::compute, "use"), {skipped}, [](Stream&) { return Event{}; });
    try {
      execute(g, fresh);
      ADD_FAILURE() << "no error was thrown; expected the error of the late task";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "no room");
    }
    EXPECT_FALSE(issued);
  }
}

TEST(LateTask, WaitingForTheTaskNotifiesItsAsynchronousPart) {
  for (const bool waits_first : {false, true}) {
    const auto outer = Event::make_state(), inner = Event::make_state();
    int heard = 0;
    device::on_wait(inner, [&] { ++heard; });
    if (waits_first) Event(outer).expect();
    device::follow(outer, Event(inner));
    if (!waits_first) Event(outer).expect();
    EXPECT_EQ(heard, 1);
    EXPECT_FALSE(Event(outer).done());
    complete(inner);
    EXPECT_TRUE(Event(outer).done());
  }
}

TEST_P(Executor, NoTaskIsInFlightWhenAnErrorReachesTheCaller) {
  auto state = Event::make_state();
  std::thread peer;
  TaskGraph g;
  g.add({Lane::inter, "slow"}, {}, [&](Stream&) {
    peer = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      complete(state);
    });
    return Event(state);
  });
  g.add({Lane::compute, "fails"}, {}, [](Stream&) -> Event { throw std::runtime_error("no"); });
  EXPECT_THROW(execute(g, context), std::runtime_error);
  EXPECT_TRUE(Event(state).done());
  peer.join();
}

TEST(ShuffledOrder, KeepsDependenciesAndLanes) {
  TaskGraph g;
  const auto nothing = [](Stream&) { return Event{}; };
  const TaskId d0 = g.add({Lane::inter, "D0"}, {}, nothing), d1 = g.add({Lane::inter, "D1"}, {}, nothing);
  const TaskId e1 = g.add({Lane::compute, "E1"}, {d1}, nothing), copy = g.add({Lane::copy, "S"}, {}, nothing);
  const TaskId c1 = g.add({Lane::inter, "C1"}, {e1, copy}, nothing);
  std::vector<std::vector<TaskId>> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto order = shuffled_order(g, seed);
    ASSERT_EQ(order.size(), 5u);
    const auto at = [&](TaskId id) { return std::find(order.begin(), order.end(), id) - order.begin(); };
    EXPECT_LT(at(d0), at(d1));
    EXPECT_LT(at(d1), at(e1));
    EXPECT_EQ(at(c1), 4);
    if (std::find(seen.begin(), seen.end(), order) == seen.end()) seen.push_back(order);
  }
  EXPECT_EQ(seen.size(), 4u);  // S runs before, between or after D0, D1 and E1, so four orders occur
  EXPECT_EQ(shuffled_order(g, 7), shuffled_order(g, 7));
}

TEST(ExecuteShuffled, FindsAForgottenEdge) {
  const auto wrong_under_some_seed = [](bool edge) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      DeviceContext context;
      Chain chain(edge);
      execute_shuffled(chain.graph, context, seed);
      if (chain.x != 4) return true;
    }
    return false;
  };
  EXPECT_FALSE(wrong_under_some_seed(true));
  EXPECT_TRUE(wrong_under_some_seed(false));
}

}  // namespace
}  // namespace hexad::schedule
