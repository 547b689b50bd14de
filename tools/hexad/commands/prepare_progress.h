// Shows the progress of `hexad prepare`.
#pragma once

#include <string>
#include <string_view>

#include "framework/data/prepare.h"
#include "framework/telemetry/text_output.h"

namespace hexad::app {

/// Returns a text like "encoding 42.0%, 12.3 MB/s, 123,456 documents, 1 min 05 s left". `seconds` is the time since the
/// stage began. Rate and remaining time are omitted during the first half second.
std::string progress_text(const data::PrepareProgress& progress, double seconds);

/// Writes progress to `out`. On a terminal, rewrites one line. Otherwise, writes a line when a stage begins, and then
/// every half minute.
class PrepareProgressLine {
 public:
  explicit PrepareProgressLine(telemetry::TextOutput& out) : out_(out) {}

  /// Shows `progress` if the last output is at least 0.1 s old on a terminal, or at least 30 s old elsewhere. Always
  /// shows the beginning of a stage and, on a terminal, its end. `now` is the current time in seconds.
  void show(const data::PrepareProgress& progress, double now);
  /// Ends the line on a terminal.
  void finish();

 private:
  telemetry::TextOutput& out_;
  std::string stage_;
  double begun_ = 0;  // time at which the stage began
  double shown_ = 0;  // time of the last output
};

}  // namespace hexad::app
