#include "tools/gpu/profile/step_profile.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hexad::gpu_profile {
namespace {

std::vector<Operation> operations_in(std::span<const Activity> activities, Interval window) {
  std::map<std::pair<Kind, std::string_view>, Operation> found;
  for (const Activity& a : activities) {
    if (a.begin < window.begin || a.begin >= window.end) continue;
    Operation& o = found[{a.kind, a.name}];
    o.kind = a.kind;
    o.name = a.name;
    o.count += 1;
    o.ns += a.end - a.begin;
    o.bytes += a.bytes;
  }
  std::vector<Operation> out;
  for (const auto& [key, operation] : found) out.push_back(operation);
  std::stable_sort(out.begin(), out.end(), [](const Operation& a, const Operation& b) { return a.ns > b.ns; });
  return out;
}

std::vector<Place> places_of(std::span<const Gap> gaps) {
  const auto name = [](const Activity* a) { return a ? a->name : std::string_view{}; };
  std::map<std::pair<std::string_view, std::string_view>, Place> found;
  for (const Gap& g : gaps) {
    Place& p = found[{name(g.before), name(g.after)}];
    p.before = name(g.before);
    p.after = name(g.after);
    p.count += 1;
    p.ns += g.time.length();
  }
  std::vector<Place> out;
  for (const auto& [key, place] : found) out.push_back(place);
  std::stable_sort(out.begin(), out.end(), [](const Place& a, const Place& b) { return a.ns > b.ns; });
  return out;
}

}  // namespace

int64_t Profile::idle() const {
  int64_t sum = 0;
  for (const StepTime& s : steps) sum += s.idle;
  return sum;
}

int64_t Profile::step_of(const Gap& gap) const {
  int64_t end = window.begin, step = first_step;
  for (const StepTime& s : steps) {
    end += s.total;
    if (gap.time.begin < end) break;
    ++step;
  }
  return step;
}

int64_t Profile::ns_into_step(const Gap& gap) const {
  int64_t begin = window.begin;
  for (int64_t s = first_step; s < step_of(gap); ++s) begin += steps[s - first_step].total;
  return gap.time.begin - begin;
}

std::optional<Profile> profile(std::span<const Activity> activities, std::string_view update, int64_t skipped) {
  const std::vector<int64_t> ends = step_ends(activities, update);
  const size_t first = std::max<int64_t>(skipped, 1);
  if (ends.size() <= first) return std::nullopt;

  Profile p;
  p.first_step = static_cast<int64_t>(first) + 1;
  p.window = {ends[first - 1], ends.back()};
  for (size_t i = first; i < ends.size(); ++i) p.steps.push_back({.total = ends[i] - ends[i - 1]});
  p.operations = operations_in(activities, p.window);
  p.streams = stream_times(activities, p.window);
  p.gaps = find_gaps(activities, p.window);
  // A step ends with an activity, so no gap extends from one step into the next.
  for (const Gap& g : p.gaps) p.steps[p.step_of(g) - p.first_step].idle += g.time.length();
  p.places = places_of(p.gaps);
  std::stable_sort(p.gaps.begin(), p.gaps.end(),
                   [](const Gap& a, const Gap& b) { return a.time.length() > b.time.length(); });
  return p;
}

}  // namespace hexad::gpu_profile
