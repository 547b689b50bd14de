// Training steps and idle times in a list of activities. Lists must be sorted by `begin`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/gpu/profile/activity.h"

namespace hexad::gpu_profile {

struct Interval {
  int64_t begin = 0, end = 0;  // ns, on the clock of the activities
  int64_t length() const { return end - begin; }
};

/// Returns the end time of each step: the end of its last kernel whose name contains `update`. An optimizer launches
/// several such kernels in a row. The next such kernel belongs to a new step if at least `between_steps` other kernels
/// ran in between.
std::vector<int64_t> step_ends(std::span<const Activity> activities, std::string_view update);
inline constexpr int between_steps = 16;

/// An interval without any activity.
struct Gap {
  Interval time;
  const Activity* before = nullptr;  // activity that ended last before the gap; null: none
  const Activity* after = nullptr;   // next activity after the gap; null: none
};

/// Returns all gaps of `window`, in order. In the rest of the window, at least one activity runs.
std::vector<Gap> find_gaps(std::span<const Activity> activities, Interval window);

/// Activity of one stream in a window.
struct StreamTime {
  uint32_t stream = 0;
  int64_t count = 0;            // number of activities that begin in the window
  int64_t busy = 0, alone = 0;  // ns in which the stream is busy, and in which only this stream is busy
  std::string_view longest;     // name of the activities with the largest total time on the stream
};

/// Returns the times of all streams with activities in the window, the busiest first.
std::vector<StreamTime> stream_times(std::span<const Activity> activities, Interval window);

}  // namespace hexad::gpu_profile
