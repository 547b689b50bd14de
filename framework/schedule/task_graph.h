// A schedule as data: tasks with a lane, a cost and dependencies. Built by pure functions; run by the executor, priced
// by the simulator, drawn by the tracer, tested by the shuffled executor.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/device/context.h"

namespace hexad::schedule {

using device::Event;
using device::Lane;
using device::Stream;

using TaskId = int32_t;

/// What a task moves or computes: what the simulator prices and the trace shows.
struct Cost {
  double flops = 0;
  int64_t wire_bytes = 0;  // sent by this rank
  int64_t copy_bytes = 0;
};

struct TaskSpec {
  Lane lane = Lane::compute;
  std::string name;
  Cost cost{};
};

/// Work of a task, started on its lane's stream. The returned event (default: none) says when the part that does not
/// run on the stream, such as a collective, is done; the task is done when both are.
using TaskWork = std::function<Event(Stream&)>;

struct Task {
  TaskSpec spec;
  std::vector<TaskId> after;
  TaskWork work;
};

/// Insertion order is issue order and must be the same on all ranks. Two tasks of one lane run in insertion order.
class TaskGraph {
 public:
  /// Throws when `after` names a task that is not yet in the graph: the order of insertion is an order of execution.
  TaskId add(TaskSpec spec, std::vector<TaskId> after, TaskWork work);
  std::span<const Task> tasks() const { return tasks_; }
  /// "inter: D0 D1 C0(E0) | compute: E0(D0)": lanes in the order of the enum, what a task comes after in brackets.
  std::string to_string() const;

 private:
  std::vector<Task> tasks_;
};

}  // namespace hexad::schedule
