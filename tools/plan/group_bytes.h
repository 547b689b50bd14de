// Bytes that ranks send in a recorded step, by process group.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Bytes that a rank sends in one step to groups of one kind. Groups of one kind have the same name and traffic class.
struct GroupBytes {
  std::string name;  // such as "ep" or "dp x cp"
  comm::TrafficClass traffic;
  std::vector<int> ranks;  // ranks of the first such group, in the group's order
  /// Bytes, averaged over pipeline stages. `network` counts the bytes of `sent` that leave the domain of the fast link
  /// (RecordPrices::sent_over_network).
  double sent = 0, network = 0;
};

/// Returns the traffic of a step by kind of group, the largest first. Omits kinds that send nothing.
std::vector<GroupBytes> bytes_by_group(const RecordedStep& step, const StepPrices& prices);

}  // namespace hexad::plan
