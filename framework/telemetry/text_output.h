// Output to standard output or error, which may be a terminal, or a pipe whose reader has ended.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::telemetry {

/// Behaviour if the reader of the output exists but does not read. Examples: a terminal stopped with Ctrl-S, a pager, a
/// launcher that is ending the job and no longer forwards output.
enum class Stuck : uint8_t {
  wait,  // waits without limit
  drop,  // drops output after a second or at a signal, so that a training run continues and handles the signal
};

/// Writes text to a file descriptor that it does not own. If the reader has ended or the device is full, drops output
/// silently: `| head` must not end a run.
class TextOutput {
 public:
  /// `fd` is 1 or 2 except in tests. `fd` is treated as a terminal if it is a terminal and TERM is not "dumb". Under
  /// mpirun, mpirun's own output must be a terminal too.
  explicit TextOutput(int fd, Stuck stuck = Stuck::wait);
  bool is_terminal() const { return terminal_; }
  /// Returns the current columns of the terminal (it may be resized); 80 if unknown.
  int width() const;
  void write(std::string_view text);

 private:
  void write_or_drop(std::string_view text);

  int fd_;
  Stuck stuck_;
  bool terminal_;
  bool closed_ = false;
  bool refused_ = false;  // the last text was not read
  bool torn_ = false;     // only a part of that text was written
};

}  // namespace hexad::telemetry
