#include "tools/plan/curves/measured_curve.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

using Point = config::Curve::Point;

// Returns the two adjacent points of the curve around x. The curve must begin at or below x, and end above x.
std::pair<Point, Point> around(const config::Curve& curve, double x) {
  const auto right = std::ranges::upper_bound(curve.points, x, {}, &Point::x);
  return {*(right - 1), *right};
}

double on_line(const Point& a, const Point& b, double x) { return std::lerp(a.y, b.y, (x - a.x) / (b.x - a.x)); }

}  // namespace

double efficiency(const config::Curve& shares, double volume) {
  const Point &first = shares.points.front(), &last = shares.points.back();
  if (shares.is_constant()) return first.y;
  base::require(first.x > 0, "[plan] the efficiency curve starts at volume ", first.x, ", expected above 0");
  if (volume <= first.x) return first.y * volume / first.x;
  if (volume >= last.x) return last.y;
  const auto [a, b] = around(shares, volume);
  return volume / on_line({a.x, a.x / a.y}, {b.x, b.x / b.y}, volume);
}

double speed(const config::Curve& speeds, double volume) {
  const Point &first = speeds.points.front(), &last = speeds.points.back();
  if (speeds.is_constant()) return first.y;
  base::require(first.x > 0, "[plan] the speed curve starts at volume ", first.x, ", expected above 0");
  if (volume <= first.x) return first.y * volume / first.x;
  if (volume >= last.x) return last.y;
  const auto [a, b] = around(speeds, volume);
  return on_line(a, b, volume);
}

double seconds(const config::Curve& times, double size) {
  const Point &first = times.points.front(), &last = times.points.back();
  if (times.is_constant() || size <= first.x) return first.y;
  if (size < last.x) {
    const auto [a, b] = around(times, size);
    return on_line(a, b, size);
  }
  const Point& before = times.points[times.points.size() - 2];
  return last.y + std::max(0.0, (last.y - before.y) / (last.x - before.x)) * (size - last.x);
}

double octaves(double a, double b) { return std::abs(std::log2(a / b)); }

double Link::seconds(double moved, double volume) const {
  if (moved == 0) return 0;
  return moved / (bandwidth * plan::efficiency(efficiency, volume));
}

}  // namespace hexad::plan
