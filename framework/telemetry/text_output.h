// Output to standard output or standard error, which may be a terminal or a pipe whose reader has exited.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::telemetry {

/// Behaviour while the reader of the output does not read. Examples are a terminal stopped with Ctrl-S, a pager, and a
/// launcher that is ending the job and no longer forwards output.
enum class BlockedReader : uint8_t {
  wait,  // waits until the reader reads
  drop,  // drops output after a second or at a signal; training continues, and the signal is handled
};

/// Writes text to a file descriptor, but does not own the descriptor. Drops all output silently after the first error,
/// for example if the reader has ended or the device is full. A reader that ends early, such as `| head`, must not end
/// a run. A reader that does not read is no error (see BlockedReader).
class TextOutput {
 public:
  /// Writes to `fd`, which is 1 or 2, or any descriptor in tests. is_terminal() is true if `fd` is a terminal and TERM
  /// is not "dumb". Under Open MPI's mpirun, `fd` may be a terminal or a pipe. is_terminal() is then true only if
  /// mpirun itself writes to a terminal.
  explicit TextOutput(int fd, BlockedReader blocked_reader = BlockedReader::wait);
  bool is_terminal() const { return terminal_; }
  /// Returns the current number of columns of the terminal; 80 if it is unknown. The terminal may be resized between
  /// calls.
  int width() const;
  void write(std::string_view text);
  /// Throws std::system_error if text was dropped after an error, such as a full device. Does not throw if the reader
  /// has ended, or if text was dropped because the reader did not read (BlockedReader::drop). Call this function for
  /// output that is the result of a command.
  void require_written() const;

 private:
  void write_or_drop(std::string_view text);

  int fd_;
  BlockedReader blocked_reader_;
  bool terminal_;
  int error_ = 0;         // first error of a write (errno); later output is dropped
  bool refused_ = false;  // true if the previous text was not accepted completely
  bool torn_ = false;     // true if the written output ends in a part of a text whose rest was dropped
};

}  // namespace hexad::telemetry
