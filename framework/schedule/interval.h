// An interval of time.
#pragma once

namespace hexad::schedule {

/// Start and end of an interval, in seconds.
struct Interval {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

}  // namespace hexad::schedule
