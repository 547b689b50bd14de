// Standard output or error as it really is: perhaps a terminal, perhaps a pipe whose reader has left.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::telemetry {

/// Behaviour when the reader is there but does not read: a terminal stopped with Ctrl-S, a pager, a launcher that is
/// ending the job and no longer passes output on.
enum class Stuck : uint8_t {
  wait,  // as long as it takes
  drop,  // after a second, or when a signal arrives: a training run goes on, and sees the signal that asks it to save
};

/// Writes text to a file descriptor it does not own. Once the reader is gone or the device is full, output is dropped
/// silently: a run must not end because of `| head`.
class TextOutput {
 public:
  /// `fd` is 1 or 2 outside of tests. It counts as a terminal when it is one and TERM is not "dumb"; under mpirun, when
  /// mpirun's is one, too.
  explicit TextOutput(int fd, Stuck stuck = Stuck::wait);
  bool is_terminal() const { return terminal_; }
  /// Columns of the terminal now (it may be resized); 80 when unknown.
  int width() const;
  void write(std::string_view text);

 private:
  void write_or_drop(std::string_view text);

  int fd_;
  Stuck stuck_;
  bool terminal_;
  bool closed_ = false;
  bool refused_ = false;  // the last text found no reader
  bool torn_ = false;     // and only a part of it went out
};

}  // namespace hexad::telemetry
