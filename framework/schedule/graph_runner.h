// Runs a layer's graphs in place of execute(), to record the times of tasks or to inspect a pass.
#pragma once

#include <string>
#include <vector>

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

/// Keeps the graphs passed to run(), in their order, and computes nothing.
class GraphCollector final : public GraphRunner {
 public:
  void run(const std::string&, const TaskGraph& graph, device::DeviceContext&) override {
    graphs.push_back(without_work(graph));
  }
  bool computes() const override { return false; }

  std::vector<TaskGraph> graphs;
};

}  // namespace hexad::schedule
