// Pairs of measured GEMMs: with one kernel call for each expert, and with one call for all experts.
#pragma once

#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Forward products of one shape, measured with one call for each expert (dense) and with one call for all experts
/// (grouped).
struct DenseAndGrouped {
  const MeasuredProduct* dense = nullptr;
  const MeasuredProduct* grouped = nullptr;
};

/// Returns the measurements of the shape whose weight is nearest to `weight` elements, as a ratio. Returns the
/// measurements of the largest weight if `weight` is 0. Both pointers are null if the cluster has no such pair of this
/// element type.
DenseAndGrouped nearest_dense(const Cluster& cluster, Element element, double weight);

}  // namespace hexad::plan
