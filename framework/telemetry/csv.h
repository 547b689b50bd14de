// Cells of tables in CSV files.
#pragma once

#include <string>

namespace hexad::telemetry {

/// Returns the text as a cell, in quotes if it contains a comma, a quote or a line break.
std::string csv_cell(const std::string& text);
/// Returns the number with nine significant digits; an empty cell if it is not finite.
std::string csv_cell(double value);

}  // namespace hexad::telemetry
