// JSON output of `hexad plan`. It contains everything that the text output contains.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/hexad/commands/plan_figures.h"
#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Returns a plan as an object. The plan must have details (PlanRequest::details). `seconds` is the duration of the
/// search. `fewer` lists numbers of ranks that do not suffice, for Objective::ranks.
nlohmann::ordered_json plan_json(const Planned& planned, const plan::Plan& plan, double seconds,
                                 const std::vector<plan::FewestRanks::Refused>& fewer);

/// Returns comparisons of the best layout with the second best layout and with the recipe's own layout, and the walks
/// to both.
nlohmann::ordered_json explanation_json(const Planned& planned, const plan::Plan& plan, const Explanation& explanation);

}  // namespace hexad::app
