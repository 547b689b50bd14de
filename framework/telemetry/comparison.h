// Comparison of several runs in one file that needs no network and no server.
#pragma once

#include <filesystem>
#include <string_view>

#include "framework/telemetry/report.h"
#include "framework/telemetry/sweep.h"

namespace hexad::telemetry {

/// Writes the page: a table of the runs, a table of their speed, charts with one legend for all, and the differences of
/// settings. Throws base::Error like write_report().
void write_comparison(const Sweep& sweep, const std::filesystem::path& output,
                      std::string_view charts = chart_library());

}  // namespace hexad::telemetry
