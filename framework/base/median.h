// Medians. Single outliers, such as slow first steps and pauses of a shared machine, hardly change a median.
#pragma once

#include <vector>

namespace hexad::base {

/// Returns the median of the finite values, or NaN if there are none. The median of an even number of values is the
/// mean of the two middle values.
double median(std::vector<double> values);

/// Returns the median; for an even number of values, the smaller of the two middle values. For the times of two ranks,
/// the result is the time of the faster rank, so the slower rank stands out. Throws std::logic_error if there are no
/// values.
double lower_median(std::vector<double> values);

}  // namespace hexad::base
