// Times of transfers and computations of any size, interpolated between measured points. In all these functions, a
// constant curve applies to every size. Work below the smallest measured size takes the time of that size, which is
// mostly latency.
#pragma once

#include "framework/config/curve.h"

namespace hexad::plan {

/// Returns the efficiency at `volume`. `shares` gives the efficiency as a function of the volume. The first volume must
/// be above 0. Between two points, the time (volume / efficiency) is linear in the volume, which is exact for a link
/// with a latency and a rate. Above the last point, the efficiency is constant.
double efficiency(const config::Curve& shares, double volume);

/// Returns the speed at `volume`. `speeds` gives bytes or FLOPs per second as a function of bytes or FLOPs. The speed
/// is linear between two points (MPMoE, section 4.2) and constant above the last point.
double speed(const config::Curve& speeds, double volume);

/// Returns the seconds for `size`. `times` gives seconds as a function of the size. The time is linear between two
/// points. Above the last point, the time continues along the last segment, but does not fall.
double seconds(const config::Curve& times, double size);

/// Returns the distance between two sizes in octaves (factors of two).
double octaves(double a, double b);

/// A theoretical bandwidth (bytes/s) and the share of this bandwidth that is reached at each volume (bytes).
struct Link {
  double bandwidth = 1;
  config::Curve efficiency = 1;

  /// Returns the seconds in which `moved` bytes leave a rank. Uses the efficiency at `volume` bytes.
  double seconds(double moved, double volume) const;
};

}  // namespace hexad::plan
