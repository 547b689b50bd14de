// A quantity y that depends on a quantity x. A recipe writes the dependence as a number or as a list of [x, y] points.
#pragma once

#include <utility>
#include <vector>

namespace hexad::config {

/// One number for every x, or points in ascending order of x. The code that uses the key defines the values between and
/// beyond the points. In YAML: `0.8`, or `[[8e6, 0.43], [32e6, 0.63]]`. Constraints of the key apply to each y.
struct Curve {
  struct Point {
    double x = 0, y = 0;
    bool operator==(const Point&) const = default;
  };

  std::vector<Point> points;  // at least one; a single point is a constant, whose x is ignored

  Curve(double constant = 0) : points{{0, constant}} {}
  /// Makes a curve from `list`, which must contain at least two points, in ascending order of x.
  Curve(std::vector<Point> list) : points(std::move(list)) {}

  bool is_constant() const { return points.size() == 1; }
  bool operator==(const Curve&) const = default;
};

}  // namespace hexad::config
