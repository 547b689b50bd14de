// Interface of objects that run a layer's graphs in place of execute(), for example to record tasks and their times;
// and a collector of graphs.
#pragma once

#include <vector>

#include "framework/schedule/executor.h"
#include "framework/schedule/pass_name.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  /// Runs `graph`, the graph of `pass`, on the rank's thread in place of execute(graph, context).
  virtual void run(const PassName& pass, const TaskGraph& graph, device::DeviceContext& context) = 0;
};

/// Executes graphs and stores copies of them without their work, in the order of the calls.
class GraphCollector final : public GraphRunner {
 public:
  void run(const PassName&, const TaskGraph& graph, device::DeviceContext& context) override {
    graphs.push_back(without_work(graph));
    execute(graph, context);
  }

  std::vector<TaskGraph> graphs;
};

}  // namespace hexad::schedule
