// metrics.jsonl: one JSON object a line. Each has a "kind" (step, evaluation, save) and a "time" (UTC). Only steps have
// a "loss", only evaluations an "eval_loss", only saves "checkpoint_bytes", by which lines of older programs, without a
// kind, are told apart. A loss of no targets is null. JSON has no NaN or infinity: they are written as the strings
// "NaN", "Infinity", "-Infinity", which Python's float() and JavaScript's Number() read back.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// One line without the newline.
std::string to_json_line(const StepMetrics& step);
std::string to_json_line(const EvalMetrics& eval);
std::string to_json_line(const SaveMetrics& save);

/// A whole metrics.jsonl.
struct MetricsHistory {
  std::vector<StepMetrics> steps;  // in file order
  std::vector<EvalMetrics> evals;
  std::vector<SaveMetrics> saves;
  std::vector<int64_t> unreadable_lines;  // numbers from 1; a torn last line is among them
};

/// Reads a file that a crash may have torn; keys this program does not know are passed over, missing ones keep their
/// default. A higher peak that was measured later corrects the MFU of the earlier steps of the same start. Throws
/// base::Error(data) when the file cannot be opened.
MetricsHistory read_metrics(const std::filesystem::path& path);

/// Contents of one line; monostate: it cannot be read.
using MetricsRecord = std::variant<std::monostate, StepMetrics, EvalMetrics, SaveMetrics>;
MetricsRecord parse_json_line(std::string_view line);

}  // namespace hexad::telemetry
