// Estimates of a rank's traffic, before it is tried.
#pragma once

#include <array>

#include "framework/base/ordinal.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Bytes that a rank sends to others in a training step, by class of traffic.
struct TrafficEstimate {
  std::array<double, comm::traffic_class_count> bytes{};
  double& operator[](comm::TrafficClass c) { return bytes[base::ordinal(c)]; }
  double operator[](comm::TrafficClass c) const { return bytes[base::ordinal(c)]; }
  double total() const;
};

/// Traffic of rank `rank` of the layout, as the groups of the step itself count it on a meta device (step_on_meta). All
/// ranks are taken to be on one node, so rows between experts' ranks are sent directly: the nodes of ranks, and so
/// what a rank passes on between others, are known where a job runs.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const mesh::Layout& layout, int rank);

}  // namespace hexad::plan
