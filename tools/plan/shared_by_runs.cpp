#include "tools/plan/shared_by_runs.h"

namespace hexad::plan {

using device::MetaRun;

MetaRun::Choose SharedByRuns::choose(const RoutingLoad& load, int rank, int ranks,
                                     std::optional<double> capacity_factor) {
  const ExpertShares* given = load == RoutingLoad::given ? &load.shares() : nullptr;
  std::shared_ptr<const MetaRun::Choose>& router = routers_[{load.kind(), given, rank, ranks, capacity_factor}];
  if (!router) router = std::make_shared<const MetaRun::Choose>(choose_experts(load, rank, ranks, capacity_factor));
  return [router](std::span<int32_t> ids, const MetaRun::Choice& choice) { (*router)(ids, choice); };
}

}  // namespace hexad::plan
