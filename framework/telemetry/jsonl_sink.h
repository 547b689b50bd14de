// metrics.jsonl: the record of a run, which the report and other programs read.
#pragma once

#include <filesystem>
#include <optional>

#include "framework/telemetry/append_file.h"
#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Appends one line per record, each with one unbuffered write, so a killed run loses no complete line.
///
/// on_start() truncates the file at the point where the run resumes. It removes the first record of a step after
/// `first_step` and everything after it, because these steps are computed again. A new run (first_step 0) thus starts
/// an empty file. A torn last line is removed too. An evaluation of `first_step` replaces the existing one, because a
/// run that had finished its last step evaluates it again.
class JsonlSink : public MetricsSink {
 public:
  explicit JsonlSink(std::filesystem::path path) : path_(std::move(path)) {}
  void on_start(const RunInfo& run) override;
  void on_step(const StepMetrics& step) override;
  void on_eval(const EvalMetrics& eval) override;
  void on_save(const SaveMetrics& save) override;

 private:
  void remove_eval();

  std::filesystem::path path_;
  AppendFile file_;
  int64_t first_step_ = 0;
  std::optional<uintmax_t> eval_;  // offset of the evaluation of first_step
};

}  // namespace hexad::telemetry
