// Memory of a rank under the routing models.
#pragma once

#include "tools/plan/memory_estimate.h"

namespace hexad::plan {

/// Memory of the rank that needs the most, in bytes.
struct RoutedMemory {
  struct Load {
    double times = 1;  // ratio of the slots of this rank's experts to an even share
    double bytes = 0;
  };
  double even = 0;
  // Memory under RoutingLoad::p99 and RoutingLoad::one_rank; `worst` is at least `p99`. Both members `bytes` equal the
  // member `even` if no load can exceed an even share.
  Load p99, worst;
};

/// Returns the memory under each routing model. `even` is the memory with evenly loaded experts. The memory under the
/// other models is also `even` without expert parallelism, if the recipe defines the routing, or if experts choose
/// tokens. Otherwise, estimates the memory of each model whose load exceeds an even share. `shared` is as in
/// estimate_memory().
RoutedMemory routed_memory(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world, double even,
                           const std::shared_ptr<SharedByRuns>& shared = nullptr);

}  // namespace hexad::plan
