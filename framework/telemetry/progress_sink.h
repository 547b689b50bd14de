// Progress display of a run: a single line that is overwritten on a terminal, or separate plain lines elsewhere.
#pragma once

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/text_output.h"

namespace hexad::telemetry {

/// Overwrites one line after each step if the output is a terminal; the line fits the width of the terminal. Writes
/// plain lines without control codes if the output is not a terminal: for the first step after on_start(), for each
/// multiple of `every`, and for the last step of the run. On any output, the start, each evaluation and the end of the
/// run have separate lines.
class ProgressSink : public MetricsSink {
 public:
  explicit ProgressSink(TextOutput output, int64_t every = 10);
  /// Leaves the progress line of a failed run in place. The error message begins below it.
  ~ProgressSink() override;
  void on_start(const RunInfo& run) override;
  void on_step(const StepMetrics& step) override;
  void on_eval(const EvalMetrics& eval) override;
  void on_end() override;

 private:
  void print_permanently(const std::string& text);
  double seconds_left(const StepMetrics& step) const;

  TextOutput output_;
  int64_t every_;
  RunInfo run_;
  double seconds_per_step_ = 0;  // smoothed over about ten steps
  StepMetrics last_;
  double trained_seconds_ = 0;
  int64_t printed_ = 0;               // the last step for which a plain line was written
  bool progress_line_shown_ = false;  // true if the next output must overwrite a progress line on the terminal
};

/// Returns a text like "held-out loss 2.5000 nats per token, 1.2500 bits per byte (64 of 512 sequences, 5.00 k
/// tokens)". The parentheses contain only the tokens if the whole set was evaluated.
std::string heldout_text(const EvalMetrics& eval);

/// Returns the progress line without control codes, at most `width` columns wide. Omits fields from the end if the line
/// is too long. The line ends in a progress bar of at most 30 columns if all fields fit and enough columns remain.
std::string progress_line(const RunInfo& run, const StepMetrics& step, double seconds_left, int width);

}  // namespace hexad::telemetry
