// How far two ways of computing the same may lie apart: the only place with such a number.
#pragma once

#include <cmath>

#include "framework/base/dtype.h"

namespace hexad::tests {

/// Half the distance from 1 to the next number.
inline double unit_roundoff(base::Dtype dtype) {
  switch (dtype) {
    case base::Dtype::f32:
      return 0x1p-24;
    case base::Dtype::bf16:
      return 0x1p-8;
    case base::Dtype::f64:
      return 0x1p-53;
    default:
      return 0;  // integers are exact
  }
}

/// Relative error allowed in a result stored as `dtype` after sums of `reduction_length` terms in its accumulator type.
/// Rounding errors of a sum behave like a random walk, hence the root; the factors leave room for a few operations
/// before and after it.
inline double tolerance(base::Dtype dtype, int64_t reduction_length) {
  if (!base::is_floating(dtype)) return 0;
  const double length = static_cast<double>(reduction_length > 1 ? reduction_length : 1);
  return 4 * unit_roundoff(dtype) + 12 * std::sqrt(length) * unit_roundoff(base::accumulator_dtype(dtype));
}

}  // namespace hexad::tests
