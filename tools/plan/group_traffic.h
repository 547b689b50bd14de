// Bytes of a recorded step by the groups of ranks that exchange them.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Bytes that a rank sends in a step to the groups of one kind: all groups of a name and a class.
struct GroupTraffic {
  std::string name;  // "ep", "dp x cp"
  comm::TrafficClass traffic;
  std::vector<int> ranks;  // of the first of these groups, in its order
  /// Bytes, as means over pipeline stages. `network`: those that leave the ranks of the fast link
  /// (RecordPrices::sent_over_network).
  double sent = 0, network = 0;
};

/// Returns the traffic of a step, the largest first. Kinds that send nothing are left out.
std::vector<GroupTraffic> group_traffic(const RecordedStep& step, const StepPrices& prices);

}  // namespace hexad::plan
