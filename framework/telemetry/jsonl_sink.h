// metrics.jsonl, the record of a run that everything else (the report, other programs) is made from.
#pragma once

#include <filesystem>
#include <optional>

#include "framework/telemetry/append_file.h"
#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Appends one line a record, each with one write and nothing kept back, so a killed run loses no finished line.
/// on_start cuts the file where the run resumes: the first record of a step after `first_step`, and everything behind
/// it, belongs to a future that is about to be computed again. A new run (first_step 0) thus starts an empty file. A
/// torn last line goes too. An evaluation of `first_step` itself takes the place of the one that is there: a run that
/// had taken its last step is evaluated again.
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
  std::optional<uintmax_t> eval_;  // where the evaluation of first_step begins
};

}  // namespace hexad::telemetry
