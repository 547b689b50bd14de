// Start and end times of the tasks of a graph. Predicted and measured times have the same type, so they can be
// compared.
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
  std::vector<Span> spans;  // indexed by TaskId

  /// Returns the latest end of a task, in seconds; 0 if there are no tasks.
  double total() const;
  /// Returns the seconds during which at least one task runs on the lane.
  double busy(Lane lane) const;

  /// Returns the exposed seconds, in which the compute lane is idle but a task of the given kind or lane runs. A task
  /// that waits for its peers counts as running. Overlapping tasks are counted once.
  double exposed() const;               // all communication
  double exposed(TaskKind kind) const;  // one kind, which may be `copy`
  double exposed(Lane lane) const;
  /// Returns the intervals in which `task` is exposed, in order of time.
  std::vector<Interval> exposed_parts(TaskId task) const;

  /// Time of one collective over all its chunks. The chunks are communication tasks whose names differ only in the
  /// number at the end.
  struct CollectiveTime {
    std::string name;        // name without the number: "dispatch.a2a" for dispatch.a2a[0], dispatch.a2a[1], ...
    double seconds = 0;      // seconds during which at least one of the chunks runs
    double exposed = 0;      // part of `seconds` during which the compute lane is idle
    int64_t wire_bytes = 0;  // sum over the chunks
  };
  std::vector<CollectiveTime> collectives() const;  // returns the collectives in the order of their first tasks
};

/// Returns the timeline of the times that execute() measured. Time 0 of the timeline is `origin` on the clock of
/// `times`, by default the earliest start of a task. The timelines of ranks on one machine have a common clock if the
/// ranks use the same origin. Throws std::logic_error if `times` does not have one entry for each task.
Timeline measured(const TaskGraph& graph, std::span<const TaskTime> times, std::optional<double> origin = {});

/// Returns the predicted total time divided by the measured total time (Timeline::total()). A result above 1 means that
/// the prediction was too high. Returns 1 if both times are zero.
double prediction_ratio(const Timeline& predicted, const Timeline& measured);

}  // namespace hexad::schedule
