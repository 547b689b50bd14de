// What a rank will send, before it is tried.
#pragma once

#include <array>

#include "parallel/comm/traffic.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

/// Bytes that a rank sends to others in a training step, by class of traffic.
struct TrafficEstimate {
  std::array<double, comm::traffic_class_count> bytes{};
  double& operator[](comm::TrafficClass c) { return bytes[static_cast<size_t>(c)]; }
  double operator[](comm::TrafficClass c) const { return bytes[static_cast<size_t>(c)]; }
  double total() const;
};

/// Of rank `rank` of the layout: what the groups of the step itself count on a meta device (step_on_meta). All ranks
/// are taken to be on one node, so rows between experts' ranks are sent directly: on which nodes ranks are, and so what
/// passes one on its way between others, is known where a job runs.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const mesh::Layout& layout, int rank);

}  // namespace hexad::plan
