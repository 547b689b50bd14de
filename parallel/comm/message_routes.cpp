#include "parallel/comm/message_routes.h"

#include <algorithm>
#include <map>

namespace hexad::comm {

std::vector<Route> all_routes(int size) {
  std::vector<Route> routes;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      if (from != to) routes.push_back({from, to});
  return routes;
}

int max_routes_per_rank(const std::set<Route>& routes) {
  std::map<int, int> of_rank;
  for (const Route& route : routes) ++of_rank[route.from], ++of_rank[route.to];
  int most = 0;
  for (const auto& [rank, count] : of_rank) most = std::max(most, count);
  return most;
}

}  // namespace hexad::comm
