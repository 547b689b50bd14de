// Efficiency of a machine as a function of the size of the work.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/config/curve.h"

namespace hexad::plan {

/// Efficiency as a function of the size of the work. The time (size / efficiency) is linear between points. This
/// interpolation is exact for a fixed overhead and a constant rate. Beyond the last point, the efficiency is constant.
class Efficiency {
 public:
  using Curve = config::Curve;
  /// Quantity that is constant below the first point: time or efficiency.
  enum class Below : uint8_t { time, efficiency };

  Efficiency(const Curve& curve, Below below) : points_(curve.points), below_(below), constant_(curve.is_constant()) {}

  double at(double size) const {
    const Curve::Point &first = points_.front(), &last = points_.back();
    if (constant_ || size >= last.x) return last.y;
    if (size <= first.x) return below_ == Below::time ? first.y * size / first.x : first.y;
    const auto right = std::upper_bound(points_.begin(), points_.end(), size,
                                        [](double s, const Curve::Point& point) { return s < point.x; });
    const auto left = right - 1;
    return size / std::lerp(left->x / left->y, right->x / right->y, (size - left->x) / (right->x - left->x));
  }
  double greatest() const { return points_.back().y; }

 private:
  std::vector<Curve::Point> points_;
  Below below_;
  bool constant_;
};

}  // namespace hexad::plan
