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

TEST_P(Executor, DoesNotYieldWithoutCollectivesAndLanes) {
  if (GetParam()) GTEST_SKIP() << "with lane threads, the caller waits for them, so it yields";
  std::string log;
  Fibers fibers;
  Chain chain(true);
  fibers.run([&] { execute(chain.graph, context, nullptr, &fibers), log += 'a'; }, [&] { log += 'b'; });
  EXPECT_EQ(log, "ab");
}

}  // namespace
}  // namespace hexad::schedule
