// report.html: the report of a run, in one file that needs neither network nor server.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Chart.js as it was found when this program was built (Debian: libjs-chart.js); empty when it was not.
std::string_view chart_library();

struct ReportInputs {
  std::filesystem::path metrics;  // metrics.jsonl
  std::filesystem::path output;   // report.html; replaced in one step
  RunInfo run;                    // its name is the title
  std::string recipe;             // resolved, YAML

  struct Fact {
    std::string name, value;  // "Machine", "Commit", "Layout", ...; shown in this order
  };
  std::vector<Fact> environment;

  /// Steps that ran alike: those after `after`, up to the next part's.
  struct Part {
    int64_t after = 0;
    std::string date, layout;
    std::vector<std::string> changes;  // since the part before
  };
  std::vector<Part> parts{};  // shown when there are several
  std::string trouble{};      // why the run ended early; empty: it did not

  struct Sample {
    std::string prompt, text;
  };
  std::vector<Sample> samples;  // may be empty
  /// SVG elements of timeline_svg(), put in as they are beside the recorded step's numbers; may be empty.
  std::vector<std::string> timelines{};

  std::string_view charts = chart_library();
};

/// Writes the report. All text is escaped; long runs are thinned so that no spike of the loss is lost.
/// Throws base::Error: data when there are no metrics, usage when the program was built without Chart.js, resource when
/// the file cannot be written.
void write_report(const ReportInputs& inputs);

}  // namespace hexad::telemetry
