#include "tools/plan/profile/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace hexad::plan {
namespace {

constexpr int least = 3, most = 21;

double timed(const std::function<void()>& work) {
  const double begin = now();
  work();
  return now() - begin;
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

double Timer::median(const std::function<void()>& work, double seconds) const {
  meet();
  const double once = largest(timed(work));
  const int repeats = static_cast<int>(std::clamp(seconds / std::max(once, 1e-9), double{least}, double{most}));
  std::vector<double> times;
  meet();
  for (int i = 0; i < repeats; ++i) times.push_back(timed(work));
  const auto middle = times.begin() + repeats / 2;
  std::nth_element(times.begin(), middle, times.end());
  return rounded(largest(*middle));
}

Curve Timer::curve(std::span<const int64_t> sizes, double seconds, const std::function<Work(int64_t)>& prepare) const {
  std::vector<Curve::Point> points;
  double left = seconds;
  for (const int64_t size : sizes) {
    const double begin = now();
    const Work work = prepare(size);
    if (!points.empty() && work.size <= points.back().x) continue;  // rounded to the one before
    const double expected = points.empty() ? 0 : points.back().y * work.size / points.back().x;
    if (points.size() >= 2 && (1 + least) * expected > left) break;
    // Large sizes cost most; a third of the rest for each leaves something for those that follow.
    points.push_back({work.size, median(work.run, left / 3)});
    left -= largest(now() - begin);
  }
  return points;
}

}  // namespace hexad::plan
