// Search for the fewest ranks on which a recipe fits.
#pragma once

#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Returns the numbers of ranks to try, ascending, up to `most`: divisors of a node's ranks, then whole nodes.
std::vector<int64_t> ranks_to_try(int64_t ranks_per_node, int64_t most);

struct FewestRanks {
  int64_t ranks;  // first number on which a layout fits; else the last with a legal layout; else the last
  Plan plan;      // plan on these ranks, the shortest step first; `best` is empty if no layout fits
  /// Number of ranks on which no layout fits; in lists ascending. least_memory: bytes of a rank under the legal layout
  /// that needs the least, if there is one.
  struct Refused {
    int64_t ranks, legal;
    double least_memory;
  };
  std::vector<Refused> refused;
};

/// Finds the fewest ranks, at most request.world, on which the recipe fits.
FewestRanks fewest_ranks(const config::Document& document, const train::Recipe& recipe,
                         const train::Extensions& extensions, const Cluster& cluster, PlanRequest request);

}  // namespace hexad::plan
