// Who wants to know when a graph's tasks ran.
#pragma once

#include <span>
#include <string>

#include "framework/schedule/executor.h"

namespace hexad::schedule {

class GraphObserver {
 public:
  virtual ~GraphObserver() = default;
  /// `graph` has just run, at `times`, as what `name` says: "moe.3 forward". On the rank's thread.
  virtual void observe(const std::string& name, const TaskGraph& graph, std::span<const TaskTime> times) = 0;
};

}  // namespace hexad::schedule
