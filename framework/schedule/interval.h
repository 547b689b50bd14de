// A stretch of time.
#pragma once

namespace hexad::schedule {

/// Seconds.
struct Interval {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

}  // namespace hexad::schedule
