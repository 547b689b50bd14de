// Memory of a rank under the routing models.
#pragma once

#include "tools/plan/memory_estimate.h"

namespace hexad::plan {

/// Memory of the rank that needs most, in bytes.
struct RoutedMemory {
  struct Load {
    double times = 1;  // share of the slots that the experts of this rank get, over an even share
    double bytes = 0;
  };
  double even = 0;
  Load p99, worst;  // RoutingLoad::p99 and one_rank; as even if a rank cannot get more than its share
};

/// Returns the memory under each routing model, given that with evenly loaded experts. Estimates only loads that
/// differ. Without expert parallelism, or if the recipe defines the routing, all are as even.
RoutedMemory routed_memory(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                           double even);

}  // namespace hexad::plan
