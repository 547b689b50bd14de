// Interface of objects that run a layer's graphs in place of execute(), for example to record tasks and their times;
// and a collector of graphs.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/executor.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  /// Runs `graph` on the rank's thread in place of execute(graph, context). `name` is the name of the pass, for example
  /// "layers.0.moe forward".
  virtual void run(const std::string& name, const TaskGraph& graph, device::DeviceContext& context) = 0;
};

/// Executes graphs and stores copies of them without their work, in the order of the calls.
class GraphCollector final : public GraphRunner {
 public:
  void run(const std::string&, const TaskGraph& graph, device::DeviceContext& context) override {
    graphs.push_back(without_work(graph));
    execute(graph, context);
  }

  std::vector<TaskGraph> graphs;
};

}  // namespace hexad::schedule
