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

/// Estimates the traffic of rank `rank` of the layout, counted by the process groups of a step on the meta device
/// (step_on_meta). Assumes that all ranks are on one node and send rows directly to the ranks of experts. The nodes of
/// ranks, and therefore the rows that a rank forwards between nodes, are unknown before the job runs.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const mesh::Layout& layout, int rank);

}  // namespace hexad::plan
