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
    if (fewest.ranks > 0) fewest.refused.push_back({fewest.ranks, fewest.plan.legal, fewest.plan.least_memory});
    request.world = ranks;
    fewest.ranks = ranks;
    fewest.plan = search_plan(document, recipe, extensions, cluster, request);
    if (!fewest.plan.best.empty()) break;
  }
  return fewest;
}

}  // namespace hexad::plan
