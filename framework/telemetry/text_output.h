// Standard output or error as it really is: perhaps a terminal, perhaps a pipe whose reader has left.
#pragma once

#include <string_view>

namespace hexad::telemetry {

/// Writes text to a file descriptor it does not own. Once the reader is gone or the device is full, output is dropped
/// silently: a run must not end because of `| head`.
class TextOutput {
 public:
  /// `fd` is 1 or 2 outside of tests. It counts as a terminal when it is one and TERM is not "dumb".
  explicit TextOutput(int fd);
  bool is_terminal() const { return terminal_; }
  /// Columns of the terminal now (it may be resized); 80 when unknown.
  int width() const;
  void write(std::string_view text);

 private:
  int fd_;
  bool terminal_;
  bool closed_ = false;
};

}  // namespace hexad::telemetry
