// report.html: the report of a run, a single file that a browser shows without a network or a server.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Returns the Chart.js that was found when this program was built (Debian: libjs-chart.js); empty if none was found.
std::string_view chart_library();

struct ReportInputs {
  std::filesystem::path metrics;  // metrics.jsonl
  std::filesystem::path output;   // report.html, which is replaced atomically
  RunInfo run;                    // `name` is the title of the report
  std::string recipe;             // the resolved recipe, as YAML

  struct Fact {
    std::string name, value;  // for example "Machine" and "two cores"
  };
  std::vector<Fact> environment;  // rows of the table of facts, in this order

  /// A range of steps with the same settings and number of ranks. It begins after step `after` and ends before the next
  /// part.
  struct Part {
    int64_t after = 0;
    std::string date, layout;
    std::vector<std::string> changes;  // differences from the previous part
    int64_t ranks = 0;                 // number of ranks; 0: unknown
  };
  std::vector<Part> parts{};  // parts of the run; shown if there are several
  std::string trouble{};      // reason why the run ended early; empty if it did not end early

  struct Sample {
    std::string prompt, text;
  };
  std::vector<Sample> samples;  // texts that the model generated; may be empty
  /// SVG elements from timeline_svg(), inserted unchanged below the numbers of the recorded steps; may be empty.
  std::vector<std::string> timelines{};

  /// A predicted step, shown next to the measured steps of the run.
  struct Prediction {
    std::string about;  // one sentence about the prediction
    struct Row {
      std::string name, predicted, measured, ratio;
    };
    std::vector<Row> rows;
    std::vector<std::string> notes;
    std::vector<std::string> timelines;  // SVG elements from timeline_svg(), inserted unchanged; may be empty
  };
  std::optional<Prediction> prediction{};

  std::string_view charts = chart_library();
};

/// Writes the report. All text is escaped, except timelines, which are SVG. The charts of a long run omit some steps,
/// but keep the extremes of the loss (thin()). Throws base::Error: data if there are no metrics, usage if the program
/// was built without Chart.js, resource if the file cannot be written.
void write_report(const ReportInputs& inputs);

}  // namespace hexad::telemetry
