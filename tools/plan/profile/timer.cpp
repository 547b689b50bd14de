#include "tools/plan/profile/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "framework/base/median.h"

namespace hexad::plan {
namespace {

constexpr int least = 3;
int most(const Timer::Work& work) { return work.batch_seconds > 0 ? 9 : 21; }

double timed(const Timer::Work& work, int runs) {
  const double begin = now();
  for (int i = 0; i < runs; ++i) work.run();
  return (now() - begin) / runs;
}

// True if a point is slower for each unit of its size than the point before it. This may be noise.
bool is_slower(const Curve::Point& point, const std::vector<Curve::Point>& before) {
  return !before.empty() && point.y / point.x > before.back().y / before.back().x;
}

}  // namespace

double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

double Timer::median(const Work& work, double seconds) const {
  if (work.batch_seconds > 0)
    work.run();  // warm-up run, because allocations would distort the number of runs per batch
  meet();
  const double once = std::max(1e-9, largest(timed(work, 1)));
  const int runs = static_cast<int>(std::ceil(std::clamp(work.batch_seconds / once, 1.0, 1e6)));
  const int repeats = static_cast<int>(std::clamp(seconds / (once * runs), double(least), double(most(work))));
  std::vector<double> times;
  meet();
  for (int i = 0; i < repeats; ++i) times.push_back(timed(work, runs));
  return rounded(largest(base::median(std::move(times))));
}

Curve Timer::curve(std::span<const int64_t> sizes, double seconds, const std::function<Work(int64_t)>& prepare) const {
  std::vector<Curve::Point> points;
  double left = seconds;
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Later sizes get the time that a size leaves unused.
    const double begin = now(), share = left / static_cast<double>(sizes.size() - i);
    const Work work = prepare(sizes[i]);
    if (!points.empty() && work.size <= points.back().x)
      continue;  // already measured: `prepare` rounded it to the previous size
    const double expected = points.empty() ? 0 : points.back().y * work.size / points.back().x;
    if (points.size() >= 2 && (1 + least) * expected > left) break;
    Curve::Point point{work.size, median(work, share)};
    if (is_slower(point, points)) point.y = std::min(point.y, median(work, share / 2));
    points.push_back(point);
    left -= largest(now() - begin);
  }
  return points;
}

}  // namespace hexad::plan
