#include "tools/plan/plan_search.h"

#include "tools/train/recipe/complete.h"

namespace hexad::plan {

PlannedLayout layout_as_is(const config::Document& document, const train::Extensions& extensions,
                           const Cluster& cluster, const PlanRequest& request) {
  const auto world = static_cast<int>(request.world);
  PlannedLayout l{.candidate = {train::load_to_train(document, extensions, world)}, .composed = {}};
  train::Recipe& r = l.candidate.recipe;
  train::complete(r, 1);
  l.step =
      forecast_step(r, extensions, mesh::Layout(r.parallel.sizes(), world), StepPrices(cluster, world), request.load);
  l.memory = estimate_memory(r, extensions, world, request.load);
  return l;
}

}  // namespace hexad::plan
