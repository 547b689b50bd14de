// The fewest ranks on which a recipe fits into memory.
#pragma once

#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Returns the numbers of ranks to try, ascending, up to `most`: the divisors of the number of ranks of a node, then
/// multiples of this number.
std::vector<int64_t> ranks_to_try(int64_t ranks_per_node, int64_t most);

struct FewestRanks {
  // Fewest ranks on which a layout fits. If no layout fits, this is the largest tried number of ranks with a legal
  // layout, or the largest tried number if no layout is legal.
  int64_t ranks;
  Plan plan;  // plan on these ranks; `best` is empty if no layout fits
  /// A number of ranks on which no layout fits. `legal` is the number of legal layouts on these ranks. `least_memory`
  /// is Plan::least_memory, approximately the least memory that any legal layout needs on a rank, in bytes.
  struct Refused {
    int64_t ranks, legal;
    double least_memory;
  };
  std::vector<Refused> refused;  // by number of ranks, ascending
};

/// Finds the first number of ranks_to_try(), at most request.world, on which the recipe fits.
FewestRanks fewest_ranks(const config::Document& document, const train::Recipe& recipe,
                         const train::Extensions& extensions, const Cluster& cluster, PlanRequest request);

}  // namespace hexad::plan
