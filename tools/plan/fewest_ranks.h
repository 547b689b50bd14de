// Search for the fewest ranks on which a recipe fits.
#pragma once

#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Numbers of ranks that are tried, ascending, up to `most`: divisors of a node's ranks, then whole nodes.
std::vector<int64_t> ranks_to_try(int64_t ranks_per_node, int64_t most);

struct FewestRanks {
  int64_t ranks;  // the first number with a legal layout that fits; else the last with a legal one; else the last
  Plan plan;      // the layouts on them, the shortest step first; `best` is empty if none fits
  /// Numbers of ranks on which nothing fits, ascending. least_memory: bytes of a rank under the layout that needs
  /// least, if one is legal.
  struct Refused {
    int64_t ranks, legal;
    double least_memory;
  };
  std::vector<Refused> refused;
};

/// Searches request.world ranks or fewer.
FewestRanks fewest_ranks(const config::Document& document, const train::Recipe& recipe,
                         const train::Extensions& extensions, const Cluster& cluster, PlanRequest request);

}  // namespace hexad::plan
