#include "tools/plan/step_forecast.h"

#include <memory>
#include <utility>

#include "tools/plan/shared_by_runs.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

StepForecast with_all_micro_batches(StepForecast forecast, const train::Recipe& recipe,
                                    const train::Extensions& extensions, const mesh::Layout& layout,
                                    const StepPrices& prices, RoutingLoad load) {
  const int64_t all = forecast.micro_batches;
  if (forecast.simulated_micro_batches == all) return forecast;
  const RoutingLoad slowest = with_stragglers(std::move(load), layout.size(base::Axis::ep));
  RecordedStep step{.micro_batches = all, .longer = {.micro_batches = all, .stages = {}}, .shorter = {}};
  const train::Recipe divided = train::with_stage_split(recipe, extensions);
  const auto shared = std::make_shared<SharedByRuns>();
  for (const StepForecast::Stage& stage : forecast.stages)
    step.longer.stages.push_back(
        record_steps(divided, extensions, layout, stage.rank, slowest, {&all, 1}, prices.node_of_rank(), shared)
            .front());
  StepForecast whole = simulate_recorded(step, recipe, prices);
  whole.records = std::move(step.longer.stages);
  return whole;
}

}  // namespace hexad::plan
