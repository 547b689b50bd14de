// Small runs and their reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {

inline constexpr std::string_view charts = "/* charts */";

inline std::vector<StepMetrics> steps_with_losses(const std::vector<double>& losses) {
  std::vector<StepMetrics> steps(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    steps[i].step = static_cast<int64_t>(i) + 1;
    steps[i].tokens = steps[i].step * 100;
    steps[i].step_seconds = 0.5;
    steps[i].loss = losses[i];
  }
  return steps;
}

/// Writes a run of ten steps to `folder`. Returns the inputs of its report.
inline ReportInputs small_run(const TemporaryFolder& folder) {
  std::string lines;
  for (const auto& s : steps_with_losses(std::vector<double>(10, 2.5))) lines += to_json_line(s) + "\n";
  lines += to_json_line(EvalMetrics{.step = 10, .tokens = 2048, .loss = 2.25, .bits_per_byte = 1.75}) + "\n";
  write_text(folder / "metrics.jsonl", lines);
  ReportInputs inputs;
  inputs.metrics = folder / "metrics.jsonl";
  inputs.output = folder / "report.html";
  inputs.run.name = "small";
  inputs.charts = charts;
  return inputs;
}

inline std::string report_of(const ReportInputs& inputs) {
  write_report(inputs);
  return contents(inputs.output);
}

inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace hexad::telemetry
