// Rest of links before a measurement, so that a traffic shaper's bursts (docs/profile.md) are the same in all
// measurements.
#pragma once

#include <algorithm>
#include <string>

#include "tools/plan/cluster.h"

namespace hexad::bench {

/// Returns the longest burst that the cluster file states, in seconds: after this idle time, every link can send its
/// burst again. Returns 0 without a file (an empty path). Throws like plan::load_cluster().
inline double longest_burst(const std::string& profile) {
  double longest = 0;
  if (profile.empty()) return longest;
  for (const plan::LinkBurst& burst : plan::load_cluster(profile).bursts) longest = std::max(longest, burst.seconds);
  return longest;
}

}  // namespace hexad::bench
