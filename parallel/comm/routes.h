// Directions in which the messages of a group travel.
#pragma once

#include <compare>
#include <set>
#include <vector>

namespace hexad::comm {

/// Direction in which messages travel between two ranks of a group.
struct Route {
  int from, to;
  auto operator<=>(const Route&) const = default;
};

/// Returns the routes between all pairs of `size` ranks.
std::vector<Route> all_routes(int size);
/// Returns the largest number of routes that begin or end at one rank.
int most_routes_of_a_rank(const std::set<Route>& routes);

}  // namespace hexad::comm
