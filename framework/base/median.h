// Medians, which single outliers such as slow first steps and pauses of a shared machine do not move.
#pragma once

#include <vector>

namespace hexad::base {

/// Returns the median of the finite values, or NaN if there are none. If their number is even, the median is the mean
/// of the two middle values.
double median(std::vector<double> values);

/// Returns the median. If the number of values is even, the result is the smaller of the two middle values. For
/// example, with two ranks the result is the time of the faster rank, so the slower rank stands out. Throws
/// std::logic_error if there are no values.
double lower_median(std::vector<double> values);

}  // namespace hexad::base
