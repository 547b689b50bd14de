// metrics.jsonl: one JSON object per line. Each object has a "kind" (step, evaluation, save) and a "time" (UTC). Lines
// of older versions of this program have no "kind". Such a line is an evaluation if it has the key "eval_loss", and a
// save if it has the key "checkpoint_bytes". Otherwise it is a step. The loss is null if there were no targets. JSON
// cannot represent NaN and infinity. These values are written as the strings "NaN", "Infinity" and "-Infinity", which
// Python's float() and JavaScript's Number() parse.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Returns the line for a step, an evaluation or a save, without the newline.
std::string to_json_line(const StepMetrics& step);
std::string to_json_line(const EvalMetrics& eval);
std::string to_json_line(const SaveMetrics& save);

/// Contents of a file metrics.jsonl.
struct MetricsHistory {
  std::vector<StepMetrics> steps;  // steps in the order of the file
  std::vector<EvalMetrics> evals;
  std::vector<SaveMetrics> saves;
  std::vector<int64_t> unreadable_lines;  // line numbers from 1; includes an incomplete last line
};

/// Reads a file whose last line may be incomplete after a crash. Unknown keys are ignored, and missing keys have their
/// defaults. The MFU of a step is corrected if a higher peak was measured later. Peaks after the next start of the
/// program or of a stage have no effect. Expert loads of older programs get empty rows for layers without experts if a
/// later step has such rows. Throws base::Error(data) if `path` is not a regular file that can be opened.
MetricsHistory read_metrics(const std::filesystem::path& path);

/// Contents of one line; monostate if the line cannot be read.
using MetricsRecord = std::variant<std::monostate, StepMetrics, EvalMetrics, SaveMetrics>;
MetricsRecord parse_json_line(std::string_view line);

}  // namespace hexad::telemetry
