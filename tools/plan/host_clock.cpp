#include "tools/plan/host_clock.h"

#include <algorithm>

#include "framework/base/ordinal.h"

namespace hexad::plan {

double HostClock::delay(double seconds) {
  const device::Issue& issue = record_.issues[ends_.size()];
  const bool communicates = issue.communicates();
  double& lane_end = lane_end_[base::ordinal(issue.lane)];
  double ready = communicates ? 0 : lane_end;
  for (const int32_t before : issue.after) {
    ready = std::max(ready, ends_[before]);
    const device::Issue& earlier = record_.issues[before];
    // `after` of a kernel or copy lists an earlier operation of the same lane only if the host waited for that
    // operation.
    if (!communicates && !earlier.communicates() && earlier.lane == issue.lane) now_ = std::max(now_, ends_[before]);
  }
  now_ += issuing_;
  const double delay = std::max(0.0, now_ - ready);
  ends_.push_back(ready + delay + seconds);
  if (!communicates) lane_end = ends_.back();
  return delay;
}

}  // namespace hexad::plan
