#include "parallel/comm/class_config.h"

#include <algorithm>
#include <set>

#include "framework/base/ordinal.h"

namespace hexad::comm::nccl {

CommunicatorConfig config_of(StreamKind kind) {
  switch (kind.traffic) {
    case TrafficClass::tp:
    case TrafficClass::ep:
    case TrafficClass::dp:
      return {.min_ctas = 1, .max_ctas = kind.across_nodes ? 8 : ctas_limit};
    case TrafficClass::control:
      return {.min_ctas = 1, .max_ctas = 1};
    case TrafficClass::pp:
    case TrafficClass::cp:
      return {.min_ctas = 1, .max_ctas = 8};
  }
  return {};
}

CommunicatorConfig message_config(bool across_nodes, int channels) {
  constexpr int fewest = 2, all = 32;
  return {.min_ctas = 1, .max_ctas = std::clamp(all / std::max(channels, 1), fewest, across_nodes ? 4 : 8)};
}

int blocks_in_flight(std::span<const GroupTraffic> groups, int limit) {
  std::set<StreamKind> kinds;
  int blocks = 0;
  for (const GroupTraffic& g : groups)
    if (g.channels > 0)
      blocks += g.channels * std::min(message_config(g.across_nodes, g.channels).max_ctas, limit);
    else
      kinds.insert({.traffic = g.traffic, .urgency = g.urgency, .across_nodes = g.across_nodes});
  for (const StreamKind& kind : kinds) blocks += std::min(config_of(kind).max_ctas, limit);
  return blocks;
}

int max_ctas_of(std::span<const GroupTraffic> groups, int multiprocessors) {
  for (const int limit : {ctas_limit, 12, 8, 4, 2})
    if (blocks_in_flight(groups, limit) <= multiprocessors) return limit;
  return 1;
}

int multiprocessors_of(std::span<const TrafficBeside> traffic, int limit) {
  constexpr int cluster = 4, max_doubled = 8;
  int blocks = 0, single = 0;
  for (const TrafficBeside& t : traffic) {
    const CommunicatorConfig config =
        t.messages ? message_config(false, t.operations) : config_of({.traffic = t.traffic});
    const int of_operation = std::min(config.max_ctas, limit), own = t.operations * of_operation;
    blocks += own;
    if (of_operation % cluster != 0) single += own;
  }
  return blocks + std::min(single, max_doubled);
}

int stream_priority(StreamKind kind, const Priorities& priorities, int least, int greatest) {
  const auto level_of = [&](TrafficClass t) { return priorities.of_class[base::ordinal(t)]; };
  const int lowest = *std::max_element(priorities.of_class.begin(), priorities.of_class.end());
  const bool boosted = kind.urgency == Urgency::urgent && priorities.by_need;
  return std::max(greatest, least - (lowest - level_of(kind.traffic)) - (boosted ? 1 : 0));
}

}  // namespace hexad::comm::nccl
