// Options of the commands that predict steps on a cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/hexad/command_line.h"
#include "tools/hexad/usage.h"
#include "tools/plan/routing_model.h"

namespace hexad::app {

/// Overrides of the recipe, and those of the cluster file without their prefix "cluster.".
struct DividedOverrides {
  std::vector<std::string> recipe, cluster;
};

inline DividedOverrides divided(const std::vector<std::string>& all) {
  constexpr std::string_view of_cluster = "cluster.";
  DividedOverrides out;
  for (const std::string& o : all)
    o.starts_with(of_cluster) ? out.cluster.push_back(o.substr(of_cluster.size())) : out.recipe.push_back(o);
  return out;
}

/// Adds --routing, whose value load_of() reads.
inline Option add_routing(const Command& command, std::string& routing) {
  return command
      .add_option("--routing", &routing,
                  "load of the experts: even; p99: one rank has a load that only 1% of routers exceed; worst: all "
                  "tokens visit one rank")
      .legal(one_of({"even", "p99", "worst"}));
}

inline plan::RoutingLoad load_of(std::string_view routing) {
  return routing == "p99"     ? plan::RoutingLoad::p99
         : routing == "worst" ? plan::RoutingLoad::one_rank
                              : plan::RoutingLoad::even;
}

}  // namespace hexad::app
