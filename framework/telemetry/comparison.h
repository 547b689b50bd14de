// Several runs over each other, in one file that needs no network and no server.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/report.h"

namespace hexad::telemetry {

struct ComparisonInputs {
  struct Run {
    std::string name;
    std::filesystem::path metrics;  // metrics.jsonl
    std::string layout;
    std::vector<std::string> differences;  // of its recipe from the first run's
  };
  std::vector<Run> runs;
  std::filesystem::path output;
  std::string_view charts = chart_library();
};

/// Writes the page. Throws base::Error as write_report() does.
void write_comparison(const ComparisonInputs& inputs);

}  // namespace hexad::telemetry
