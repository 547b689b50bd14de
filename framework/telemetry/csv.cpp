#include "framework/telemetry/csv.h"

#include <cmath>

#include <fmt/format.h>

namespace hexad::telemetry {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : ""; }

}  // namespace hexad::telemetry
