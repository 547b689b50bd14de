// Medians, which single outliers such as slow first steps and pauses of a shared machine do not move.
#pragma once

#include <vector>

namespace hexad::base {

/// Returns the median of the finite values, or NaN if there are none. If their number is even, the median is the mean
/// of the two middle values.
double median(std::vector<double> values);

/// Returns the median. If the number of values is even, the result is the smaller of the two middle values. One of two
/// ranks can thus be slow relative to the result. Throws std::logic_error if there are no values.
double lower_median(std::vector<double> values);

}  // namespace hexad::base
