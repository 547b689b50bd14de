// metrics.jsonl: the records of a run, for the report and for other programs.
#pragma once

#include <filesystem>
#include <optional>

#include "framework/telemetry/append_file.h"
#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Appends one line for each record, without buffering. No complete line is lost if the run is killed.
///
/// on_start() truncates the file to the records up to `first_step`, because later steps will be computed again. For a
/// new run (first_step 0), the file becomes empty. An incomplete last line is also removed. A finished run that is
/// started again evaluates its last step again. The new evaluation of `first_step` replaces the existing evaluations of
/// this step.
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
  std::optional<uintmax_t> eval_;  // offset of the first existing evaluation of first_step; nullopt if there is none
};

}  // namespace hexad::telemetry
