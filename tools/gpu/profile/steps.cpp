#include "tools/gpu/profile/steps.h"

#include <algorithm>

namespace hexad::gpu_profile {

std::vector<int64_t> step_ends(std::span<const Activity> activities, std::string_view update) {
  std::vector<int64_t> ends;
  int others = 0;
  for (const Activity& a : activities) {
    if (a.kind != Kind::kernel) continue;
    if (a.name.find(update) == std::string_view::npos) {
      ++others;
      continue;
    }
    if (ends.empty() || others >= between_steps) {
      ends.push_back(a.end);
    } else {
      ends.back() = std::max(ends.back(), a.end);
    }
    others = 0;
  }
  return ends;
}

std::vector<Gap> find_gaps(std::span<const Activity> activities, Interval window) {
  std::vector<Gap> gaps;
  const Activity* last = nullptr;  // of those so far, the one that ended last
  int64_t covered = window.begin;  // until here something ran
  const auto idle_until = [&](int64_t time, const Activity* after) {
    if (time > covered) gaps.push_back({.time = {covered, time}, .before = last, .after = after});
  };
  for (const Activity& a : activities) {
    if (a.begin >= window.end) {
      idle_until(window.end, &a);
      return gaps;
    }
    idle_until(a.begin, &a);
    if (!last || a.end > last->end) last = &a;
    covered = std::max(covered, a.end);
  }
  idle_until(window.end, nullptr);
  return gaps;
}

}  // namespace hexad::gpu_profile
