// Start and end times of a graph's tasks, predicted or measured. Predicted and measured timelines have one type, so
// that they can be compared.
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

  /// Returns the end of the last task.
  double total() const;
  /// Returns the seconds in which the lane has at least one task.
  double busy(Lane lane) const;

  /// Exposed seconds: a task of the given kind runs or waits for its peers while the compute lane is idle. Simultaneous
  /// tasks count once.
  double exposed() const;               // for all communication
  double exposed(TaskKind kind) const;  // for one kind, which may be copies
  double exposed(Lane lane) const;
  /// Returns the exposed parts of one task, in order.
  std::vector<Interval> exposed_parts(TaskId task) const;

  /// Time of one collective of the step over all its chunks: communication tasks whose names differ in the number at
  /// the end.
  struct CollectiveTime {
    std::string name;    // "dispatch.a2a" for dispatch.a2a[0], dispatch.a2a[1], ...
    double seconds = 0;  // time during which at least one of the chunks runs
    double exposed = 0;
    int64_t wire_bytes = 0;
  };
  std::vector<CollectiveTime> collectives() const;  // in the order of their first tasks
};

/// Returns the timeline measured by execute(). Zero is `origin` on the clock of `times` (default: the begin of the
/// first task). With the same origin, ranks of one machine have a common clock.
Timeline measured(const TaskGraph& graph, std::span<const TaskTime> times, std::optional<double> origin = {});

/// Returns predicted over measured seconds of the whole graph: 1 is perfect, above 1 is pessimistic. Returns 1 if both
/// are zero.
double prediction_ratio(const Timeline& predicted, const Timeline& measured);

}  // namespace hexad::schedule
