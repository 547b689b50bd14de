// Commands that remove their temporary files if a signal ends them.
#pragma once

#include <cstdint>
#include <exception>
#include <utility>

#include "framework/base/file_work.h"
#include "tools/train/process/signals.h"

namespace hexad::app {

/// Exception that unwinds a command after a signal. It is not an Error, because nothing has failed.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted by a signal"; }
};

/// Returns body(work). After SIGINT, SIGTERM or SIGHUP, the next file operation that `body` reports to `work` throws
/// Interrupted, so destructors remove temporary files. The process then ends by that signal, as without a handler.
template <class Body>
auto interruptible(Body&& body) {
  train::clean_up_and_end_on_signals();
  const base::FileWork work;
  work.on_move([](uint64_t) {
    if (train::ending_signal() != 0) throw Interrupted();
  });
  try {
    return std::forward<Body>(body)(work);
  } catch (const Interrupted&) {
    train::end_by_signal(train::ending_signal());
    throw;  // reached only if the signal is blocked
  }
}

}  // namespace hexad::app
