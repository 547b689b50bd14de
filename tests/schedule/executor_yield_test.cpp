// Two graphs that take turns on one thread.
#include "framework/schedule/executor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/schedule/executor_fixture.h"

namespace hexad::schedule {
namespace {

INSTANTIATE_TEST_SUITE_P(Lanes, Executor, testing::Bool(),
                         [](const auto& i) { return i.param ? "Workers" : "Inline"; });

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

// Returns the graph of a pass in two chunks. The second chunk waits for its rows, for the return of the first chunk,
// and for the exchange "other". If `copies` is true, rows are also copied to their positions and fetched. If `offloads`
// is true, rows are copied away while experts compute. Exchanges write their names to `log` when they are issued.
TaskGraph pass_in_chunks(bool copies, bool offloads, std::string& log) {
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
    if (offloads) copy(Lane::copy, "offload", {rows});
    const TaskId experts = g.add({Lane::compute, "experts"}, std::move(after), nothing);
    returned = copy(Lane::copy, "unpack", {exchange(base::cat("C", chunk), {experts})});
  }
  return g;
}

// One rank may need copies while another rank needs none. Both ranks must yield between the same exchanges.
TEST_P(Executor, YieldsBetweenTheSameExchangesWithAndWithoutCopies) {
  for (const auto& [copies, offloads] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    std::string log;
    const TaskGraph graph = pass_in_chunks(copies, offloads, log);
    Fibers fibers;
    bool over = false;
    fibers.run([&] { execute(graph, context, nullptr, &fibers), over = true; },
               [&] {
                 for (; !over; fibers.yield()) log += " |";
               });
    // The caller yields before the experts of each chunk and before each return. The caller waits only for the last
    // return if lanes have threads.
    EXPECT_EQ(log, GetParam() ? " other before D0 | C0 D1 | C1 |" : " other before D0 | C0 | D1 | C1 |")
        << "copies: " << copies << ", offloads: " << offloads;
  }
}

// After the error, the lane skips the tasks of the other graph. The errors of skipped tasks must not hide this error.
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
      ADD_FAILURE() << "no error was thrown; expected the error of graph " << failing;
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

}  // namespace
}  // namespace hexad::schedule
