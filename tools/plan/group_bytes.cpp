#include "tools/plan/group_bytes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hexad::plan {
namespace {

using Kinds = std::map<std::pair<int, std::string>, GroupBytes>;  // by traffic class and name of the group

Kinds kinds_in(const RecordedStep::Part& part, const StepPrices& prices) {
  Kinds kinds;
  const auto stages = static_cast<double>(part.stages.size());
  for (const StepRecord& record : part.stages) {
    const RecordPrices priced(prices, record);
    for (const device::Issue& issue : record.issues) {
      const auto* work = std::get_if<device::CommunicationWork>(&issue.work);
      if (!work || work->sent == 0) continue;
      const device::IssuedGroup& group = record.groups[work->group];
      const auto [kind, added] = kinds.try_emplace({group.traffic, group.name});
      GroupBytes& t = kind->second;
      if (added) t.name = group.name, t.traffic = static_cast<comm::TrafficClass>(group.traffic), t.ranks = group.ranks;
      t.sent += static_cast<double>(work->sent) / stages;
      t.network += priced.sent_over_network(issue) / stages;
    }
  }
  return kinds;
}

}  // namespace

std::vector<GroupBytes> bytes_by_group(const RecordedStep& step, const StepPrices& prices) {
  Kinds kinds = kinds_in(step.longer, prices);
  if (step.shorter) {
    const Kinds shorter = kinds_in(*step.shorter, prices);
    for (auto& [key, t] : kinds) {
      const GroupBytes& before = shorter.at(key);  // both steps use the same groups
      t.sent = step.whole(t.sent, before.sent), t.network = step.whole(t.network, before.network);
    }
  }
  std::vector<GroupBytes> traffic;
  for (auto& [key, t] : kinds) traffic.push_back(std::move(t));
  std::ranges::stable_sort(traffic, std::greater{}, &GroupBytes::sent);
  return traffic;
}

}  // namespace hexad::plan
