// Routes of messages between the ranks of a group.
#pragma once

#include <compare>
#include <set>
#include <vector>

namespace hexad::comm {

/// Route of the messages that one rank of a group sends to another rank.
struct Route {
  int from, to;
  auto operator<=>(const Route&) const = default;
};

/// Returns the routes between all pairs of `size` ranks.
std::vector<Route> all_routes(int size);
/// Returns the largest number of routes that begin or end at the same rank.
int max_routes_per_rank(const std::set<Route>& routes);

}  // namespace hexad::comm
