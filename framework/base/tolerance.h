// Tolerances for comparisons of two computations of the same result, collected in one file.
#pragma once

#include <cmath>

#include "framework/base/dtype.h"

namespace hexad::base {

/// Returns half the distance from 1 to the next larger number of `dtype`; 0 for integers.
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

/// Returns the permitted relative error of a result that is stored as `dtype`. The result is a sum of
/// `reduction_length` terms in the accumulator type of `dtype`. The error grows with the square root of the length,
/// because rounding errors of a sum behave like a random walk. The factors allow for a few operations before and after
/// the sum.
inline double tolerance(Dtype dtype, int64_t reduction_length) {
  if (!is_floating(dtype)) return 0;
  const double length = static_cast<double>(reduction_length > 1 ? reduction_length : 1);
  return 4 * unit_roundoff(dtype) + 12 * std::sqrt(length) * unit_roundoff(accumulator_dtype(dtype));
}

/// Returns the permitted relative error between two runs of one training step, in units of a tensor's root mean square.
/// It is 1024 times the number of layers times the error of a sum over the tokens of the step. The factor 1024 covers
/// the products, normalisations and softmaxes of a layer. It is an order of magnitude above the errors of correct
/// layouts. Wrong layouts have errors of at least 1e-3.
inline double step_tolerance(Dtype dtype, int64_t tokens, int64_t layers) {
  return 1024 * static_cast<double>(layers > 1 ? layers : 1) * tolerance(dtype, tokens);
}

/// Returns the permitted relative error (root mean square) of one training step in `dtype`, compared with exact
/// arithmetic. Every layer rounds tens of times and sums over the tokens of the step; rounding errors add up like a
/// random walk. The result is at most 0.75 for any number of layers, because a missing term causes an error of 1.
inline double rounded_step_tolerance(Dtype dtype, int64_t tokens, int64_t layers) {
  const double walk = 16 * std::sqrt(static_cast<double>(layers > 1 ? layers : 1)) * tolerance(dtype, tokens);
  return walk < 0.75 ? walk : 0.75;
}

/// Returns the smallest gradient for which a relative error is meaningful after a step in `dtype`. The result is a
/// fraction of the typical size of all gradients. A smaller gradient is the remainder of larger terms that cancel, so
/// it has the rounding errors of those terms.
inline double rounded_share(Dtype dtype) { return 16 * unit_roundoff(dtype); }

}  // namespace hexad::base
