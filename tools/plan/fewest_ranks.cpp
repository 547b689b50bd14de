#include "tools/plan/fewest_ranks.h"

#include <utility>

namespace hexad::plan {

std::vector<int64_t> ranks_to_try(int64_t ranks_per_node, int64_t most) {
  std::vector<int64_t> ranks;
  for (int64_t n = 1; n <= most; n += n < ranks_per_node ? 1 : ranks_per_node)
    if (n >= ranks_per_node || ranks_per_node % n == 0) ranks.push_back(n);
  return ranks;
}

FewestRanks fewest_ranks(const config::Document& document, const train::Recipe& recipe,
                         const train::Extensions& extensions, const Cluster& cluster, PlanRequest request) {
  FewestRanks fewest{};
  for (const int64_t ranks : ranks_to_try(Prices(cluster).ranks_per_node(), request.world)) {
    request.world = ranks;
    Plan plan = search_plan(document, recipe, extensions, cluster, request);
    const bool fits = !plan.best.empty();
    if (!fits) fewest.refused.push_back({ranks, plan.legal, plan.least_memory});
    // Keeps the last plan with legal layouts, because this plan shows the missing memory. A later plan without legal
    // layouts is dropped.
    if (plan.legal > 0 || fewest.plan.legal == 0) fewest.ranks = ranks, fewest.plan = std::move(plan);
    if (fits) break;
  }
  return fewest;
}

}  // namespace hexad::plan
