// A measured dependence of one quantity on another, as a recipe writes it: a number, or a list of [x, y] points.
#pragma once

#include <utility>
#include <vector>

namespace hexad::config {

/// One number for every x, or points in ascending x. What holds between and beyond the points is for the owner to say.
/// In YAML: `0.8`, or `[[8e6, 0.43], [32e6, 0.63]]`. Constraints of the key apply to every y.
struct Curve {
  struct Point {
    double x = 0, y = 0;
    bool operator==(const Point&) const = default;
  };

  std::vector<Point> points;  // at least one; a single one is a constant, whatever its x

  Curve(double constant = 0) : points{{0, constant}} {}
  /// `list`: two points or more.
  Curve(std::vector<Point> list) : points(std::move(list)) {}

  bool is_constant() const { return points.size() == 1; }
  bool operator==(const Curve&) const = default;
};

}  // namespace hexad::config
