// Progress display of a run: one line that renews itself on a terminal, plain lines elsewhere.
#pragma once

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/text_output.h"

namespace hexad::telemetry {

/// On a terminal: a carriage return and a line fitted to the width, each step. Elsewhere: no control codes, a plain
/// line for the first step, each multiple of `every`, and the last. Evaluations get separate lines on both.
class ProgressSink : public MetricsSink {
 public:
  explicit ProgressSink(TextOutput output, int64_t every = 10);
  /// Leaves the progress line of a failed run in place: the error message begins below it.
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
  int64_t printed_ = 0;       // elsewhere: the last step that has a line
  bool line_stands_ = false;  // on a terminal, to be written over
};

/// "held-out loss 2.5000 nats per token, 1.2500 bits per byte (64 of 512 sequences, 5.00 k tokens)"; of the whole set
/// only the tokens are named.
std::string heldout_text(const EvalMetrics& eval);

/// The renewed line without control codes, at most `width` columns: whole fields are left out from the right until it
/// fits, a bar fills what is left over.
std::string progress_line(const RunInfo& run, const StepMetrics& step, double seconds_left, int width);

}  // namespace hexad::telemetry
