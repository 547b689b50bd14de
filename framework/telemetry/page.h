// Functions for the HTML pages that this program writes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Returns `text` escaped for text or a double-quoted attribute of HTML or SVG. Invalid UTF-8 and control characters
/// that XML cannot represent are replaced by U+FFFD.
std::string escaped(std::string_view text);

/// Returns `page` with each {{name}} replaced by the part of that name. A {{name}} in inserted text is not replaced.
/// Throws std::logic_error if there is no part of that name, or if "{{" has no "}}".
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& parts);

/// Returns the median of `member` over the steps with a finite value, or NaN if there are no such steps.
double median(const std::vector<StepMetrics>& steps, double StepMetrics::*member);

/// Throws Error(usage) if `charts` is empty, because the program was built without the chart library. The message says
/// that `output` cannot be written. Throws std::logic_error if `charts` contains "</script".
void require_charts(std::string_view charts, const std::string& output);

}  // namespace hexad::telemetry
