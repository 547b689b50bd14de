#include "tools/gpu/profile/steps.h"

#include <algorithm>
#include <map>

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
  const Activity* last = nullptr;  // activity with the latest end so far
  int64_t covered = window.begin;  // end of the time covered by activities so far
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

std::vector<StreamTime> stream_times(std::span<const Activity> activities, Interval window) {
  struct Change {
    int64_t time;
    uint32_t stream;
    int by;
  };
  std::vector<Change> changes;
  std::map<uint32_t, StreamTime> streams;
  std::map<uint32_t, std::map<std::string_view, int64_t>> names;
  for (const Activity& a : activities) {
    const Interval in{std::max(a.begin, window.begin), std::min(a.end, window.end)};
    if (in.length() <= 0) continue;
    StreamTime& s = streams[a.stream];
    s.stream = a.stream;
    s.count += a.begin >= window.begin;
    names[a.stream][a.name] += in.length();
    changes.push_back({in.begin, a.stream, 1});
    changes.push_back({in.end, a.stream, -1});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  std::map<uint32_t, int> running;  // number of running activities of each active stream
  int64_t now = window.begin;
  for (const Change& c : changes) {
    for (const auto& [stream, count] : running) {
      streams[stream].busy += c.time - now;
      if (running.size() == 1) streams[stream].alone += c.time - now;
    }
    now = c.time;
    if ((running[c.stream] += c.by) == 0) running.erase(c.stream);
  }
  std::vector<StreamTime> out;
  for (auto& [stream, time] : streams) {
    time.longest = std::max_element(names[stream].begin(), names[stream].end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first;
    out.push_back(time);
  }
  std::stable_sort(out.begin(), out.end(), [](const StreamTime& a, const StreamTime& b) { return a.busy > b.busy; });
  return out;
}

}  // namespace hexad::gpu_profile
