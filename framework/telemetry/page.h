// Common parts of the HTML pages that this program writes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Returns `text` as text of HTML or of an attribute, with U+FFFD where it is no UTF-8.
std::string escaped(std::string_view text);

/// Replaces {{name}} in one pass: what is put in is never searched again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& parts);

/// Robust against slow first steps and the pauses of a shared machine. NaN when nothing was measured.
double median(std::vector<double> values);
double median(const std::vector<StepMetrics>& steps, double StepMetrics::*member);

/// Throws Error(usage) when the program was built without the chart library, so that `output` cannot be written.
void require_charts(std::string_view charts, const std::string& output);

}  // namespace hexad::telemetry
