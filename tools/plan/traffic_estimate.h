// What a rank will send, before it is tried.
#pragma once

#include <array>

#include "parallel/comm/traffic.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

/// Bytes that a rank sends to others in a training step, by class of traffic.
struct TrafficEstimate {
  std::array<double, comm::traffic_class_count> bytes{};
  double& operator[](comm::TrafficClass c) { return bytes[static_cast<size_t>(c)]; }
  double operator[](comm::TrafficClass c) const { return bytes[static_cast<size_t>(c)]; }
  double total() const;
};

/// Of rank `rank` of the layout, with every expert equally loaded and none over capacity: the formulas of
/// docs/parallelism.md. Not counted are the class control (a few numbers a step), padding of buckets, and a registered
/// `mlp`. Under ZeRO-3 weights are gathered at most as often as is counted here. Rows between experts' ranks count as
/// sent directly: on which nodes these are, and so what passes a rank when they are not, is known where a job runs.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const mesh::Layout& layout, int rank);
/// Of the rank that sends the most.
TrafficEstimate estimate_traffic(const train::Recipe& recipe, const mesh::Layout& layout);

}  // namespace hexad::plan
