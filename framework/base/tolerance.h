// Tolerances for comparing two ways of computing the same: the only place with such numbers.
#pragma once

#include <cmath>

#include "framework/base/dtype.h"

namespace hexad::base {

/// Half the distance from 1 to the next number.
inline double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return 0x1p-24;
    case Dtype::bf16:
      return 0x1p-8;
    case Dtype::f64:
      return 0x1p-53;
    default:
      return 0;  // integers are exact
  }
}

/// Relative error allowed in a result stored as `dtype` after sums of `reduction_length` terms in its accumulator type.
/// Rounding errors of a sum behave like a random walk, hence the root; the factors leave room for a few operations
/// before and after it.
inline double tolerance(Dtype dtype, int64_t reduction_length) {
  if (!is_floating(dtype)) return 0;
  const double length = static_cast<double>(reduction_length > 1 ? reduction_length : 1);
  return 4 * unit_roundoff(dtype) + 12 * std::sqrt(length) * unit_roundoff(accumulator_dtype(dtype));
}

/// Relative error allowed between two runs of one training step, in units of a tensor's root mean square: what a sum
/// over the step's tokens may do, grown by `layers` layers of products, normalisations and softmaxes. 1024 a layer is
/// an order of magnitude above what correct layouts show; a wrong one is off by 1e-3 and more.
inline double step_tolerance(Dtype dtype, int64_t tokens, int64_t layers) {
  return 1024 * static_cast<double>(layers > 1 ? layers : 1) * tolerance(dtype, tokens);
}

/// Relative error, as a root mean square, of one training step in `dtype` beside exact arithmetic: every layer rounds
/// tens of times and sums over the step's tokens, and what it has rounded differs as a random walk does. At most three
/// quarters, however many layers there are: what is missing altogether is off by one.
inline double rounded_step_tolerance(Dtype dtype, int64_t tokens, int64_t layers) {
  const double walk = 16 * std::sqrt(static_cast<double>(layers > 1 ? layers : 1)) * tolerance(dtype, tokens);
  return walk < 0.75 ? walk : 0.75;
}

/// Share of the typical size of all gradients below which a tensor's own is no measure, in a step in `dtype`: what is
/// that small is left over where larger terms cancel, and has their rounding.
inline double rounded_share(Dtype dtype) { return 16 * unit_roundoff(dtype); }

}  // namespace hexad::base
