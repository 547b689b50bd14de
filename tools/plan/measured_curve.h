// Times of transfers and computations of any size, from measured points. For all of them: a constant holds for every
// size, and work below the smallest measured size takes as long as that size: its latency.
#pragma once

#include "framework/config/curve.h"

namespace hexad::plan {

/// `shares`: efficiency over volume, from a volume above 0 on. Between two points the time, volume / efficiency, is
/// linear in the volume: exact for a link with a latency and a rate. Above the last point its efficiency stays.
double efficiency(const config::Curve& shares, double volume);

/// `speeds`: bytes or FLOPs a second over bytes or FLOPs. Linear between two points (MPMoE, section 4.2); above the
/// last point its speed stays.
double speed(const config::Curve& speeds, double volume);

/// `times`: seconds over a size. Linear between two points, then along the last segment, never falling.
double seconds(const config::Curve& times, double size);

/// A theoretical bandwidth (bytes/s) and the share of it that is reached at some volume (bytes).
struct Link {
  double bandwidth = 1;
  config::Curve efficiency = 1;

  /// Seconds in which `moved` bytes leave a rank in a transfer whose efficiency is that of `volume`.
  double seconds(double moved, double volume) const;
};

}  // namespace hexad::plan
