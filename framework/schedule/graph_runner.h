// Runs a layer's graphs in place of execute(), to record the times of tasks or to inspect a pass.
#pragma once

#include <string>

#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  /// Called on the rank's thread in place of execute(graph, context). `name` identifies the pass: "moe.3 forward".
  virtual void run(const std::string& name, const TaskGraph& graph, device::DeviceContext& context) = 0;
  /// False if the runner only inspects graphs and computes nothing.
  virtual bool computes() const { return true; }
};

}  // namespace hexad::schedule
