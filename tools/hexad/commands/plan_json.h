// JSON of `hexad plan`: everything that its text has.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/hexad/commands/plan_figures.h"
#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Returns a plan as an object. The plan has details (PlanRequest::details), and its search took `seconds`. `fewer`:
/// numbers of ranks on which nothing fits, for Objective::ranks.
nlohmann::ordered_json plan_json(const Planned& planned, const plan::Plan& plan, double seconds,
                                 const std::vector<plan::FewestRanks::Refused>& fewer);

/// Returns the comparisons of the best layout with the next one, and with that of the recipe as it is.
nlohmann::ordered_json explanation_json(const Planned& planned, const plan::Plan& plan, const OwnLayout& own);

}  // namespace hexad::app
