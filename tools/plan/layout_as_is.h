// The layout that a recipe itself has, for comparison with the layouts of a plan.
#pragma once

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Returns the layout of the recipe as it is, estimated and simulated as the best layouts of a plan are, even if it
/// does not fit memory. Throws config::RecipeError if it is illegal on the requested ranks, and Error(usage)
/// if its step cannot be predicted.
PlannedLayout layout_as_is(const config::Document& document, const train::Extensions& extensions,
                           const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
