// Comparison of an experiment with the CSV of another one, such as the same experiment of an earlier version.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tools/scale/results.h"

namespace hexad::scale {

/// Measured step seconds by point. Points without a measurement are left out.
using StepSecondsByPoint = std::map<std::string, double>;

/// Reads the text of a table that csv_of() made. Throws Error(usage) that names `path` and the line if the text is not
/// such a table or is half-written.
StepSecondsByPoint steps_in_csv(std::string_view text, const std::string& path);

/// Returns a table of the points in both, as text: step times here and there, and their ratio. Names the points that
/// are in only one of them.
std::string comparison_text(const Results& results, const StepSecondsByPoint& other, const std::string& path);

}  // namespace hexad::scale
