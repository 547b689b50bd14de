// metrics.jsonl: one JSON object per line. Each has a "kind" (step, evaluation, save) and a "time" (UTC). Lines of
// older programs have no kind; they are distinguished by a key: only steps have a "loss", only evaluations an
// "eval_loss", only saves "checkpoint_bytes". A loss without targets is null. JSON lacks NaN and infinity. They are
// written as the strings "NaN", "Infinity" and "-Infinity", which Python's float() and JavaScript's Number() parse.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Returns one line without the newline.
std::string to_json_line(const StepMetrics& step);
std::string to_json_line(const EvalMetrics& eval);
std::string to_json_line(const SaveMetrics& save);

/// Contents of a metrics.jsonl file.
struct MetricsHistory {
  std::vector<StepMetrics> steps;  // in file order
  std::vector<EvalMetrics> evals;
  std::vector<SaveMetrics> saves;
  std::vector<int64_t> unreadable_lines;  // line numbers from 1; includes a torn last line
};

/// Reads a file that a crash may have torn. Ignores unknown keys; missing keys keep their defaults. If a higher peak
/// was measured later in the same program start, corrects the MFU of the earlier steps. Throws base::Error(data) if the
/// file cannot be opened.
MetricsHistory read_metrics(const std::filesystem::path& path);

/// Contents of one line; monostate if it cannot be read.
using MetricsRecord = std::variant<std::monostate, StepMetrics, EvalMetrics, SaveMetrics>;
MetricsRecord parse_json_line(std::string_view line);

}  // namespace hexad::telemetry
