// Comparison of an experiment with the CSV file of another experiment, for example by an earlier version of the
// program.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tools/scale/results.h"

namespace hexad::scale {

/// Measured step seconds by point. Points without a measurement are omitted.
using StepSecondsByPoint = std::map<std::string, double>;

/// Reads the text of a table that csv_of() wrote. Throws Error(usage) that names `path` and the line if the text is not
/// a complete table of this form.
StepSecondsByPoint steps_in_csv(std::string_view text, const std::string& path);

/// Returns a table, as text, of the points that both experiments have: the two step times and their ratio. Lists the
/// points that only one experiment has.
std::string comparison_text(const Results& results, const StepSecondsByPoint& other, const std::string& path);

}  // namespace hexad::scale
