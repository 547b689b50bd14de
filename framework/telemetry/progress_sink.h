// Progress display of a run: one updated line on a terminal, plain lines elsewhere.
#pragma once

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/text_output.h"

namespace hexad::telemetry {

/// Writes a carriage return and a line fitted to the width in each step if the output is a terminal. Otherwise writes
/// no control codes, but a plain line for the first step, each multiple of `every`, and the last step. Evaluations get
/// separate lines in both cases.
class ProgressSink : public MetricsSink {
 public:
  explicit ProgressSink(TextOutput output, int64_t every = 10);
  /// Leaves the progress line of a failed run in place, so that the error message begins below it.
  ~ProgressSink() override;
  void on_start(const RunInfo& run) override;
  void on_step(const StepMetrics& step) override;
  void on_eval(const EvalMetrics& eval) override;
  void on_end() override;

 private:
  void lasting_line(const std::string& text);
  double seconds_left(const StepMetrics& step) const;

  TextOutput output_;
  int64_t every_;
  RunInfo run_;
  double seconds_per_step_ = 0;  // smoothed over about ten steps
  StepMetrics last_;
  double trained_seconds_ = 0;
  int64_t printed_ = 0;       // the last step with a plain line, if not on a terminal
  bool line_stands_ = false;  // on a terminal: true if the next output must overwrite the progress line
};

/// Returns "held-out loss 2.5000 nats per token, 1.2500 bits per byte (64 of 512 sequences, 5.00 k tokens)". If the
/// whole set was evaluated, only the tokens are in the parentheses.
std::string heldout_text(const EvalMetrics& eval);

/// Returns the progress line without control codes, at most `width` columns wide. If it does not fit, fields are
/// omitted from the right. If there is room left, a bar fills it.
std::string progress_line(const RunInfo& run, const StepMetrics& step, double seconds_left, int width);

}  // namespace hexad::telemetry
