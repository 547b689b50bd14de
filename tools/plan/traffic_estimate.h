// Estimates of a rank's traffic, before the job runs.
#pragma once

#include <array>

#include "framework/base/ordinal.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Bytes that a rank sends to other ranks in a training step, by class of traffic.
struct TrafficEstimate {
  std::array<double, comm::traffic_class_count> bytes{};
  double& operator[](comm::TrafficClass c) { return bytes[base::ordinal(c)]; }
  double operator[](comm::TrafficClass c) const { return bytes[base::ordinal(c)]; }
  double total() const;
};

/// Estimates the traffic of rank `rank` of the layout. The process groups of a step on the meta device count the
/// traffic (step_on_meta). Assumes that all ranks are on one node and send rows directly to the ranks of experts. Rows
/// that a rank forwards between nodes are not counted, because the nodes of the ranks are unknown before the job runs.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const mesh::Layout& layout, int rank);

}  // namespace hexad::plan
