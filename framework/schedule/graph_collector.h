// Collects the graphs of passes without running them.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/graph_runner.h"

namespace hexad::schedule {

/// Keeps the graphs passed to run(), in their order.
class GraphCollector final : public GraphRunner {
 public:
  void run(const std::string&, const TaskGraph& graph, device::DeviceContext&) override {
    graphs.push_back(without_work(graph));
  }
  bool computes() const override { return false; }
  std::vector<TaskGraph> graphs;
};

}  // namespace hexad::schedule
