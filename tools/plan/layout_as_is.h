// The recipe's own layout, for comparison with the layouts of a plan.
#pragma once

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Returns the recipe of `document` with its own layout on `world` ranks. Throws config::RecipeError if the layout is
/// illegal on these ranks.
train::Recipe recipe_as_is(const config::Document& document, const train::Extensions& extensions, int64_t world);

/// Returns the recipe's own layout, estimated and simulated like the best layouts of a plan. The result may exceed the
/// memory limit. Throws the errors of recipe_as_is(), and Error(usage) if the time of the step cannot be predicted.
PlannedLayout layout_as_is(const config::Document& document, const train::Extensions& extensions,
                           const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
