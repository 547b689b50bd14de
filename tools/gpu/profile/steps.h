// Training steps and idle time in a list of activities. Lists are sorted by `begin`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/gpu/profile/activity.h"

namespace hexad::gpu_profile {

struct Interval {
  int64_t begin = 0, end = 0;  // ns
  int64_t length() const { return end - begin; }
};

/// When each step's last launch of the kernels whose names contain `update` ended. An optimizer launches several in a
/// row; a new step has begun when `between_steps` other kernels or more have run since the last one.
std::vector<int64_t> step_ends(std::span<const Activity> activities, std::string_view update);
inline constexpr int between_steps = 16;

/// Time in which nothing ran.
struct Gap {
  Interval time;
  const Activity* before = nullptr;  // what had run until then (the last to end), null: nothing had
  const Activity* after = nullptr;   // null: nothing has
};

/// All gaps of `window`, in order. Its busy time, the union of all activities in it, is the rest.
std::vector<Gap> find_gaps(std::span<const Activity> activities, Interval window);

/// Activity of one stream in a window.
struct StreamTime {
  uint32_t stream = 0;
  int64_t count = 0;            // of activities that begin in it
  int64_t busy = 0, alone = 0;  // ns with something running, and with nothing in other streams
  std::string_view longest;     // the name that took most of its time
};

/// Times of all streams with activities in the window, the busiest first.
std::vector<StreamTime> stream_times(std::span<const Activity> activities, Interval window);

}  // namespace hexad::gpu_profile
