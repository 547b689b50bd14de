#include "tools/plan/profile/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

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

// Measured sizes of a curve. Chooses the order of the measurements: the smallest size, the largest size for which there
// is time, and then always the middle of the widest gap. Even a short measurement therefore covers the range of sizes,
// and other sizes can be interpolated.
class MeasuredSizes {
 public:
  explicit MeasuredSizes(std::span<const int64_t> sizes) : sizes_(sizes), omitted_(sizes.size()) {}

  const std::map<size_t, Curve::Point>& points() const { return points_; }
  void add(size_t i, Curve::Point point) { points_.emplace(i, point); }
  /// Returns the number of sizes that are neither measured nor omitted.
  int64_t open() const { return std::ssize(sizes_) - std::ssize(points_) - std::ranges::count(omitted_, true); }

  /// Omits size `i` and returns true if `size`, to which size `i` was rounded, has been measured.
  bool omit_repeated(size_t i, double size) {
    const bool repeated = std::ranges::any_of(points_, [&](const auto& p) { return p.second.x == size; });
    omitted_[i] = repeated;
    return repeated;
  }

  /// Returns the index of the next size to measure in `left` seconds; none if the time is not sufficient for any size.
  /// `spent` is the duration of the last measurement. The second measurement may take half of `left`, or as long as the
  /// first measurement if that is longer. The second measurement uses the next larger size if no size is that fast.
  std::optional<size_t> next(double left, double spent) const {
    const size_t last = points_.rbegin()->first;
    const bool is_first = points_.size() == 1;
    const double allowed = is_first ? std::max(left / 2, spent) : left;
    for (size_t i = sizes_.size() - 1; i > last; --i)
      if (!omitted_[i] && seconds_of(i) <= allowed) return i;
    if (is_first) return first_open_above(last);
    return middle_of_widest_gap(left);
  }

 private:
  // Returns the expected seconds of a measurement of size `i`, which is above all measured sizes. Assumes that time
  // grows at most in proportion to the size. Also assumes that the time grows at most twice as fast as between the last
  // two measured sizes.
  double seconds_of(size_t i) const {
    const auto& [at, last] = *points_.rbegin();
    const double size = static_cast<double>(sizes_[i]) / static_cast<double>(sizes_[at]) * last.x;
    double expected = last.y * size / last.x;
    if (points_.size() > 1) {
      const Curve::Point& before = std::next(points_.rbegin())->second;
      const double growth = std::max(0.0, (last.y - before.y) / (last.x - before.x));
      expected = std::min(expected, last.y + 2 * growth * (size - last.x));
    }
    return (1 + least) * expected;
  }
  std::optional<size_t> first_open_above(size_t i) const {
    for (++i; i < sizes_.size(); ++i)
      if (!omitted_[i]) return i;
    return {};
  }
  // Returns the size in the middle of the widest gap between two measured sizes; none if there is no gap. Considers
  // only gaps whose upper size can be measured in `left` seconds.
  std::optional<size_t> middle_of_widest_gap(double left) const {
    std::optional<size_t> middle;
    size_t widest = 0;
    for (auto below = points_.begin(), above = std::next(below); above != points_.end(); ++below, ++above) {
      std::vector<size_t> gap;
      for (size_t i = below->first + 1; i < above->first; ++i)
        if (!omitted_[i]) gap.push_back(i);
      if (gap.size() <= widest || (1 + least) * above->second.y > left) continue;
      widest = gap.size(), middle = gap[gap.size() / 2];
    }
    return middle;
  }

  std::span<const int64_t> sizes_;
  std::vector<char> omitted_;
  std::map<size_t, Curve::Point> points_;  // measured points, by index of the size
};

}  // namespace

double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

double Timer::median(const Work& work, double seconds) const {
  if (work.batch_seconds > 0)
    work.run();  // warm-up run, because allocations would distort the number of runs per batch
  wait_for_ranks();
  const double once = std::max(1e-9, largest(timed(work, 1)));
  const int runs = static_cast<int>(std::ceil(std::clamp(work.batch_seconds / once, 1.0, 1e6)));
  const int repeats = static_cast<int>(std::clamp(seconds / (once * runs), double(least), double(most(work))));
  std::vector<double> times;
  wait_for_ranks();
  for (int i = 0; i < repeats; ++i) times.push_back(timed(work, runs));
  return rounded(largest(base::median(std::move(times))));
}

std::vector<Curve::Point> without_falls(std::vector<Curve::Point> points, const std::function<double(size_t)>& again) {
  double least = points.back().y;  // least time of the larger sizes
  for (size_t i = points.size() - 1; i-- > 0;) {
    double& seconds = points[i].y;
    if (seconds > least) seconds = std::min({seconds, again(i), largest_fall * least});
    least = std::min(least, seconds);
  }
  return points;
}

Curve Timer::curve(std::span<const int64_t> sizes, double seconds, const std::function<Work(int64_t)>& prepare) const {
  MeasuredSizes measured(sizes);
  double left = seconds, spent = 0;  // spent: seconds of the last measurement
  for (std::optional<size_t> next = 0; next; next = measured.next(left, spent)) {
    const double begin = now();
    // Divides the remaining time equally among the open sizes, including this size.
    const Work work = prepare(sizes[*next]);
    if (!measured.omit_repeated(*next, work.size))
      measured.add(*next, {work.size, median(work, left / static_cast<double>(measured.open()))});
    spent = largest(now() - begin);
    left -= spent;
  }
  const double share = seconds / static_cast<double>(2 * sizes.size());
  std::vector<Curve::Point> points;
  std::vector<size_t> indices;
  for (const auto& [i, point] : measured.points()) {
    indices.push_back(i);
    const bool slower = !points.empty() && point.y / point.x > points.back().y / points.back().x;
    points.push_back(point);
    // The time may be too long because of noise if a size is slower per unit than the next smaller size.
    if (slower) points.back().y = std::min(point.y, median(prepare(sizes[i]), share));
  }
  return without_falls(std::move(points), [&](size_t i) { return median(prepare(sizes[indices[i]]), share); });
}

}  // namespace hexad::plan
