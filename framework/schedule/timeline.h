// When the tasks of a graph ran, as predicted or as measured: one type for both, so that they can be compared.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/executor.h"
#include "framework/schedule/interval.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

struct Timeline {
  struct Span {
    TaskSpec task;
    double begin = 0, end = 0;  // seconds
  };
  std::vector<Span> spans;  // by TaskId

  /// The end of the last task.
  double total() const;
  /// Seconds in which the lane has at least one task.
  double busy(Lane lane) const;

  /// Exposed: seconds in which a task of the kind asked for runs, or waits for its peers, and lane compute has nothing
  /// to do. Time counts once, however many tasks share it.
  double exposed() const;               // of all communication
  double exposed(TaskKind kind) const;  // copies, too
  double exposed(Lane lane) const;
  /// The exposed parts of one task, in order.
  std::vector<Interval> exposed_parts(TaskId task) const;

  /// One collective of the step over all its chunks: communication tasks whose names differ in the number at the end.
  struct CollectiveTime {
    std::string name;    // "dispatch.a2a" of dispatch.a2a[0], dispatch.a2a[1], ...
    double seconds = 0;  // in which at least one of them runs
    double exposed = 0;
    int64_t wire_bytes = 0;
  };
  std::vector<CollectiveTime> collectives() const;  // in the order of their first tasks
};

/// Timeline measured by execute(). Zero is `origin` on the clock of `times` (default: the begin of the first task).
/// Pass the same origin for ranks of one machine to see them on a common clock.
Timeline measured(const TaskGraph& graph, std::span<const TaskTime> times, std::optional<double> origin = {});

/// Predicted over measured seconds of the whole graph: 1 is perfect, above 1 pessimistic. 1 if both are zero.
double prediction_ratio(const Timeline& predicted, const Timeline& measured);

}  // namespace hexad::schedule
