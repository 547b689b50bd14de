// The recipe's own layout, for comparison with the layouts of a plan.
#pragma once

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Returns the recipe's own layout, estimated and simulated like the best layouts of a plan. The result may exceed the
/// memory limit. Throws config::RecipeError if the layout is illegal on the requested ranks, and Error(usage) if the
/// time of its step cannot be predicted.
PlannedLayout layout_as_is(const config::Document& document, const train::Extensions& extensions,
                           const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
