// The alpha-beta model of a collective or kernel: seconds = alpha + beta x.
#pragma once

#include <span>

#include "framework/config/curve.h"

namespace hexad::plan {

/// Startup seconds and seconds a unit (an element, a byte, a chunk).
struct AlphaBeta {
  double alpha = 0, beta = 0;

  double operator()(double x) const { return alpha + beta * x; }
};

struct Fit {
  AlphaBeta line;
  double worst_relative_error = 0;  // of the line's seconds against the measured ones; measured zeros do not count
};

/// The line that makes the sum of squared errors of y least, as Parm fits its collectives (section V-A). `samples`:
/// x and seconds, of two x at least, in any order. Throws std::logic_error with fewer.
Fit fit_alpha_beta(std::span<const config::Curve::Point> samples);

}  // namespace hexad::plan
