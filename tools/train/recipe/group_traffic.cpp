#include "tools/train/recipe/traffic_options.h"

#include <algorithm>
#include <set>

#include "framework/device/meta/issue_log.h"
#include "parallel/comm/imagined_group.h"

namespace hexad::train {

using base::Axis;
using comm::GroupTraffic;
using comm::TrafficClass;
namespace {

bool on_several_nodes(const std::vector<int>& ranks, const std::vector<int>& node_of_rank) {
  return std::ranges::any_of(ranks, [&](int r) { return node_of_rank[r] != node_of_rank[ranks.front()]; });
}

// Returns the groups in which a rank sends messages. Treats all groups as groups inside a node, because messages inside
// a node need more thread blocks.
std::vector<GroupTraffic> messages_of(const Recipe& r, const mesh::Layout& layout) {
  const int stages = layout.size(Axis::pp), context = layout.size(Axis::cp), tensor = layout.size(Axis::tp),
            expert_tensor = layout.size(Axis::etp);
  const moe::MoeSchedule s = r.schedule.moe.settled();
  const bool experts = r.model.moe.experts > 0, chain = r.model.delta_net.used();
  // True if tp ranks may gather the pieces of results and gradients by messages, one chunk at a time.
  const bool by_chunk = experts && s.gates_all() && s.chunks > 1;
  std::vector<GroupTraffic> all;
  if (stages > 1) all.push_back({.traffic = TrafficClass::pp, .channels = stages == 2 ? 2 : 4});
  if (context > 1 && (chain || r.parallel.cp_kind == cp::ContextKind::ring))
    all.push_back({.traffic = TrafficClass::cp, .channels = chain && context > 2 ? 4 : 2});
  if (tensor > 1 && (r.parallel.sp || by_chunk))
    all.push_back({.traffic = TrafficClass::tp, .channels = 2 * (tensor - 1)});
  if (expert_tensor > 1 && experts && s.esp_exchange_used() == ep::EspExchange::gather)
    all.push_back({.traffic = TrafficClass::tp, .channels = 2 * (expert_tensor - 1)});
  return all;
}

}  // namespace

std::vector<GroupTraffic> traffic_of_groups(const Recipe& recipe, const comm::ProcessGroup& world,
                                            const mesh::SharedPieces& shared) {
  device::IssueLog log(device::IssueLog::Host::computes);
  const comm::ImaginedGroup imagined(world.rank(), world.size(), &log, world.node_of_rank());
  const mesh::Mesh mesh(imagined, recipe.parallel.sizes(), shared);
  const std::vector<GroupTraffic> messages = messages_of(recipe, mesh.layout());
  std::set<GroupTraffic> all(messages.begin(), messages.end());
  for (const device::IssuedGroup& g : log.groups()) {
    if (g.ranks.size() == 1) continue;
    GroupTraffic traffic{.traffic = static_cast<TrafficClass>(g.traffic),
                         .across_nodes = on_several_nodes(g.ranks, world.node_of_rank())};
    all.insert(traffic);
    if (traffic.traffic != TrafficClass::dp || recipe.parallel.zero < 3) continue;
    traffic.urgency = comm::Urgency::urgent;  // for gathers of weights
    all.insert(traffic);
  }
  return {all.begin(), all.end()};
}

}  // namespace hexad::train
