// Page that compares several runs: a single file that a browser shows without a network or a server.
#pragma once

#include <filesystem>
#include <string_view>

#include "framework/telemetry/report.h"
#include "framework/telemetry/sweep.h"

namespace hexad::telemetry {

/// Writes the page. It contains tables of the runs and of their speeds, line charts with a common legend, and a chart
/// of the times of a step. It also lists the differences from the recipe of the first run. Throws base::Error: usage if
/// `charts` is empty, resource if the file cannot be written.
void write_comparison(const Sweep& sweep, const std::filesystem::path& output,
                      std::string_view charts = chart_library());

}  // namespace hexad::telemetry
