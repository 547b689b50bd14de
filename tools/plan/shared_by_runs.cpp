#include "tools/plan/shared_by_runs.h"

#include "framework/config/typed_recipe.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using device::MetaRun;

MetaRun::Choose SharedByRuns::choose(const RoutingLoad& load, int rank, int ranks,
                                     std::optional<double> capacity_factor) {
  // Even choices depend neither on the rank nor on the capacity, so all ranks have one router.
  if (load == RoutingLoad::even) rank = 0, ranks = 1, capacity_factor.reset();
  const ExpertShares* given = load == RoutingLoad::given ? &load.shares() : nullptr;
  std::shared_ptr<const MetaRun::Choose>& router = routers_[{load.kind(), given, rank, ranks, capacity_factor}];
  if (!router) router = std::make_shared<const MetaRun::Choose>(choose_experts(load, rank, ranks, capacity_factor));
  return [router](std::span<int32_t> ids, const MetaRun::Choice& choice) { (*router)(ids, choice); };
}

train::Recipe SharedByRuns::divided(const train::Recipe& recipe, const layers::Registry& registry) {
  if (recipe.parallel.pp == 1 || !recipe.schedule.pipeline.split.empty())
    return train::with_stage_split(recipe, registry);  // counts no FLOPs
  const std::string model = config::write(recipe.model);
  auto known = flops_.find(model);
  if (known == flops_.end()) known = flops_.emplace(model, layers::flops_by_part(recipe.model, registry)).first;
  return train::with_stage_split_of(recipe, known->second);
}

}  // namespace hexad::plan
