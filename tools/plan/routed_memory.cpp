#include "tools/plan/routed_memory.h"

namespace hexad::plan {

RoutedMemory routed_memory(const train::Recipe& r, const train::Extensions& extensions, int64_t world, double even,
                           const std::shared_ptr<SharedByRuns>& shared) {
  const moe::MoeConfig& m = r.model.moe;
  RoutedMemory memory{.even = even, .p99 = {.bytes = even}, .worst = {.bytes = even}};
  if (m.experts == 0 || r.parallel.ep == 1 || m.routing != moe::Routing::model || m.experts_choose()) return memory;
  const device::MetaRun::Choice choice{m.top_k, m.experts, m.groups, m.top_groups};
  const auto times = [&](RoutingLoad::Kind load) {
    return share_of_rank(load, m.experts / r.parallel.ep, choice, m.capacity_factor) *
           static_cast<double>(r.parallel.ep);
  };
  const auto loaded = [&](RoutingLoad::Kind load) {
    return RoutedMemory::Load{.times = times(load), .bytes = estimate_memory(r, extensions, world, load, shared).total};
  };
  if (times(RoutingLoad::p99) > 1) memory.p99 = loaded(RoutingLoad::p99);
  memory.worst = times(RoutingLoad::one_rank) > memory.p99.times ? loaded(RoutingLoad::one_rank) : memory.p99;
  return memory;
}

}  // namespace hexad::plan
