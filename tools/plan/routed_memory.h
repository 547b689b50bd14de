// Memory of a rank under the routing models.
#pragma once

#include "tools/plan/memory_estimate.h"

namespace hexad::plan {

/// Memory of the rank that needs the most, in bytes.
struct RoutedMemory {
  struct Load {
    double times = 1;  // slots of this rank's experts over an even share
    double bytes = 0;
  };
  double even = 0;
  Load p99, worst;  // memory under RoutingLoad::p99 and one_rank; bytes == even if no rank can exceed the even share
};

/// Returns the memory under each routing model. The caller passes the memory with evenly loaded experts. Other loads
/// are estimated only if they differ from even loads. They do not differ without expert parallelism, or if the recipe
/// defines the routing.
RoutedMemory routed_memory(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                           double even);

}  // namespace hexad::plan
