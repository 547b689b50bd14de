#include "framework/schedule/task_graph.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

Event nothing(Stream&) { return {}; }

// Returns an example of a pipeline of chunks: one dispatch is in flight ahead of the experts.
TaskGraph moe_forward(int chunks) {
  TaskGraph g;
  std::vector<TaskId> dispatched;
  const auto dispatch = [&](int i) { dispatched.push_back(g.add({Lane::inter, base::cat("D", i)}, {}, nothing)); };
  dispatch(0);
  for (int i = 0; i < chunks; ++i) {
    if (i + 1 < chunks) dispatch(i + 1);
    const TaskId experts = g.add({Lane::compute, base::cat("E", i)}, {dispatched[i]}, nothing);
    g.add({Lane::inter, base::cat("C", i)}, {experts}, nothing);
  }
  return g;
}

TEST(TaskGraph, PrintsEachLaneInIssueOrderWithDependencies) {
  EXPECT_EQ(moe_forward(3).to_string(), "inter: D0 D1 C0(E0) D2 C1(E1) C2(E2) | compute: E0(D0) E1(D1) E2(D2)");
}

TEST(TaskGraph, PrintsSeveralDependenciesAndSkipsEmptyLanes) {
  TaskGraph g;
  const TaskId a = g.add({Lane::copy, "A"}, {}, nothing), b = g.add({Lane::intra, "B"}, {}, nothing);
  g.add({Lane::copy, "S"}, {a, b}, nothing);
  EXPECT_EQ(g.to_string(), "intra: B | copy: A S(A,B)");
  EXPECT_EQ(TaskGraph{}.to_string(), "");
}

TEST(TaskGraph, RefusesAnUnknownDependency) {
  TaskGraph g;
  g.add({Lane::compute, "A"}, {}, nothing);
  try {
    g.add({Lane::compute, "B"}, {1}, nothing);
    FAIL() << "a dependency on task 1 of 1 task was accepted; expected an error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[schedule] task 'B' (1) comes after task 1, which is not yet in the graph; expected an earlier task");
  }
  EXPECT_THROW(g.add({Lane::compute, "B"}, {-1}, nothing), std::logic_error);
  EXPECT_THROW(g.add({Lane::compute, "B"}, {0}, nullptr), std::logic_error);
}

}  // namespace
}  // namespace hexad::schedule
