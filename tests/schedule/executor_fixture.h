// Executor with and without worker threads of its lanes, and graphs for it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/schedule/executor.h"

namespace hexad::schedule {

using base::now;
using device::complete;
using device::DeviceContext;

/// Fixture whose parameter is true if lanes have worker threads.
class Executor : public testing::TestWithParam<bool> {
 protected:
  DeviceContext context{{.worker_lanes = GetParam()}};
};

/// Graph in which lane inter computes x + 1, and lane compute then doubles the result. The reverse order gives another
/// number. The second task depends on the first task if `edge` is true.
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

/// Returns a task with TaskSpec::issued_late: its lane issues the task when the lane reaches it.
inline TaskSpec late(Lane lane, std::string name) {
  return {.lane = lane, .name = std::move(name), .issued_late = true};
}

}  // namespace hexad::schedule
