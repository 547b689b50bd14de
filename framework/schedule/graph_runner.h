// Runs a layer's graphs in place of execute(), to record when the tasks ran or to learn what a pass would do.
#pragma once

#include <string>

#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  /// Called on the rank's thread in place of execute(graph, context). `name` says of which pass: "moe.3 forward".
  virtual void run(const std::string& name, const TaskGraph& graph, device::DeviceContext& context) = 0;
  /// False: it only inspects graphs, and nothing is computed.
  virtual bool computes() const { return true; }
};

}  // namespace hexad::schedule
