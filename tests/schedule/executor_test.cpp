#include "framework/schedule/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

using base::now;
using device::complete;
using device::DeviceContext;

class Executor : public testing::TestWithParam<bool> {  // parameter: true if lanes have worker threads
 protected:
  DeviceContext context{{.worker_lanes = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Lanes, Executor, testing::Bool(),
                         [](const auto& i) { return i.param ? "Workers" : "Inline"; });

// Graph in which lane inter computes x + 1, and lane compute then doubles the result. The reverse order gives another
// number. `edge`: true if the graph has the edge between the two tasks.
struct Chain {
  TaskGraph graph;
  std::atomic<int> x = 1;
  explicit Chain(bool edge) {
    const TaskId add = graph.add({Lane::inter, "add"}, {}, [this](Stream& s) {
      s.run([this] { x = x + 1; });
      return Event{};
    });
    graph.add({Lane::compute, "double"}, edge ? std::vector{add} : std::vector<TaskId>{}, [this](Stream& s) {
      s.run([this] { x = x * 2; });
      return Event{};
    });
  }
};

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
  for (Lane lane : {Lane::inter, Lane::compute})  // also on the same lane
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
      FAIL() << "no error was thrown on lane " << name_of(lane);
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

// Returns a task that its lane issues late.
TaskSpec late(Lane lane, std::string name) { return {.lane = lane, .name = std::move(name), .issued_late = true}; }

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

// A lane that has failed issues no more tasks, and no other lane waits for them.
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
      ADD_FAILURE() << "no error was thrown";
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
    s.run([&] {  // the asynchronous part ends before the lane has passed the task
      complete(state);
      passed = now();
    });
    return Event(state);
  });
  std::vector<TaskTime> times;
  execute(g, context, &times);
  EXPECT_GE(times[0].end, passed);
}

// Returns a graph of the tasks P, S, C, W and R for the pass `name`. P, C and W write their names to the log. The
// exchanges S and R end immediately.
TaskGraph passing(std::string& log, char name) {
  TaskGraph g;
  const auto note = [&log, name](char task) {
    return [&log, name, task](Stream& s) {
      s.run([&log, name, task] { log += std::string{' ', task, name}; });
      return Event{};
    };
  };
  const TaskId pack = g.add({Lane::compute, "P"}, {}, note('P'));
  const TaskId send =
      g.add({.lane = Lane::inter, .name = "S", .kind = TaskKind::all_to_all}, {pack}, [](Stream&) { return Event{}; });
  const TaskId experts = g.add({Lane::compute, "C"}, {send}, note('C'));
  g.add({Lane::compute, "W"}, {experts}, note('W'));
  g.add({.lane = Lane::inter, .name = "R", .kind = TaskKind::all_to_all}, {experts}, [](Stream&) { return Event{}; });
  return g;
}

TEST_P(Executor, TwoGraphsYieldAtEveryPossibleWait) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string log;
    Fibers fibers;
    const auto pass = [&](char name) {
      return [&, name] {
        execute(passing(log, name), context, nullptr, &fibers);
        log += std::string{' ', 'E', name};
      };
    };
    fibers.run(pass('a'), pass('b'));
    EXPECT_EQ(log, " Pa Pb Ca Wa Cb Wb Ea Eb");
  }
}

TEST_P(Executor, GraphIsUnwoundWhenTheOtherFails) {
  std::string log;
  Fibers fibers;
  const auto fails = [] { throw std::runtime_error("no"); };
  const auto pass = [&] { execute(passing(log, 'a'), context, nullptr, &fibers); };
  EXPECT_THROW(fibers.run(pass, fails), std::runtime_error);
  EXPECT_EQ(std::exchange(log, {}), " Pa");
  const auto fails_later = [&] {
    fibers.yield();
    fails();
  };
  EXPECT_THROW(fibers.run(fails_later, pass), std::runtime_error);
  EXPECT_EQ(std::exchange(log, {}), " Pa");
  execute(passing(log, 'a'), context, nullptr, &fibers);
  EXPECT_EQ(log, " Pa Ca Wa");
}

TEST_P(Executor, DoesNotYieldWithoutCollectives) {
  std::string log;
  Fibers fibers;
  Chain chain(true);
  fibers.run([&] { execute(chain.graph, context, nullptr, &fibers), log += 'a'; }, [&] { log += 'b'; });
  EXPECT_EQ(log, "ab");
}

// Returns the graph of a pass in two chunks. The second chunk waits for more than its rows: for the return of the first
// chunk and for another exchange. `copies`: true if rows are also copied to their places and fetched. Exchanges write
// their names to `log` when they are issued.
TaskGraph pass_in_chunks(bool copies, std::string& log) {
  TaskGraph g;
  const auto nothing = [](Stream&) { return Event{}; };
  const auto exchange = [&](const std::string& name, std::vector<TaskId> after) {
    return g.add({.lane = Lane::inter, .name = name, .kind = TaskKind::all_to_all}, std::move(after),
                 [&log, name](Stream&) {
                   log += base::cat(" ", name);
                   return Event{};
                 });
  };
  const auto copy = [&](Lane lane, std::string name, std::vector<TaskId> after) {
    return g.add({.lane = lane, .name = std::move(name), .kind = TaskKind::copy}, std::move(after), nothing);
  };
  const TaskId other = exchange("other", {});
  TaskId returned = exchange("before", {});
  for (const int chunk : {0, 1}) {
    TaskId rows = exchange(base::cat("D", chunk), {});
    std::vector<TaskId> after{returned};
    if (chunk == 1) after.push_back(other);
    if (copies) {
      rows = copy(Lane::compute, "place", {rows});
      after.push_back(copy(Lane::copy, "fetch", {}));
    }
    after.push_back(rows);
    const TaskId experts = g.add({Lane::compute, "experts"}, std::move(after), nothing);
    returned = copy(Lane::copy, "unpack", {exchange(base::cat("C", chunk), {experts})});
  }
  return g;
}

// A rank may need no copies where another rank does. It must yield between the same exchanges.
TEST_P(Executor, YieldsBetweenTheSameExchangesWithAndWithoutCopies) {
  for (const bool copies : {false, true}) {
    std::string log;
    const TaskGraph graph = pass_in_chunks(copies, log);
    Fibers fibers;
    bool over = false;
    fibers.run([&] { execute(graph, context, nullptr, &fibers), over = true; },
               [&] {
                 for (; !over; fibers.yield()) log += " |";
               });
    // Before the experts of each chunk and before each return. With lane threads, the caller waits only for the last
    // return.
    EXPECT_EQ(log, GetParam() ? " other before D0 | C0 D1 | C1 |" : " other before D0 | C0 | D1 | C1 |")
        << "copies: " << copies;
  }
}

// The lane skips the other micro-batch's tasks, whose errors must not hide the first one.
TEST_P(Executor, ErrorOfALateTaskEndsBothGraphs) {
  for (const char failing : {'a', 'b'}) {
    DeviceContext fresh{{.worker_lanes = GetParam()}};
    Fibers fibers;
    const auto pass = [&](char name) {
      return [&, name] {
        TaskGraph g;
        const TaskId sent = g.add({.lane = Lane::inter, .name = "S", .kind = TaskKind::all_to_all, .issued_late = true},
                                  {}, [&, name](Stream&) -> Event {
                                    if (name == failing) throw std::runtime_error("no room");
                                    return Event{};
                                  });
        g.add({Lane::compute, "C"}, {sent}, [](Stream&) { return Event{}; });
        execute(g, fresh, nullptr, &fibers);
      };
    };
    try {
      fibers.run(pass('a'), pass('b'));
      ADD_FAILURE() << "no error was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "no room") << failing;
    }
  }
}

TEST_P(Executor, LanesIssueLateTasksOfTwoGraphsInOneOrder) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string log;  // written by lane inter only
    Fibers fibers;
    const auto pass = [&](char name) {
      return [&, name] {
        TaskGraph g;
        const auto exchange = [&](char task, std::vector<TaskId> after) {
          return g.add({.lane = Lane::inter, .name = "X", .kind = TaskKind::all_to_all, .issued_late = true},
                       std::move(after), [&log, name, task](Stream&) {
                         log += std::string{' ', task, name};
                         return Event{};
                       });
        };
        const auto nothing = [](Stream&) { return Event{}; };
        const TaskId experts = g.add({Lane::compute, "C"}, {exchange('S', {})}, nothing);
        exchange('R', {experts});
        execute(g, context, nullptr, &fibers);
      };
    };
    fibers.run(pass('a'), pass('b'));
    EXPECT_EQ(log, " Sa Sb Ra Rb");
  }
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
