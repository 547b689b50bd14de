// Who runs a layer's graphs, when somebody wants to see them: to record when the tasks ran, or to learn what a pass
// would do.
#pragma once

#include <string>

#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  /// In place of execute(graph, context): a pass of what `name` says, "moe.3 forward". On the rank's thread.
  virtual void run(const std::string& name, const TaskGraph& graph, device::DeviceContext& context) = 0;
  /// False: it only looks, and nothing is computed.
  virtual bool computes() const { return true; }
};

}  // namespace hexad::schedule
