// Exit codes and messages of exceptions.
#pragma once

#include <exception>
#include <string>

#include "framework/base/error.h"

namespace hexad::base {

/// Message and exit code of an exception.
struct Failure {
  std::string text{};  // message for the user; empty: no failure
  ExitCode code = ExitCode::done;
};

/// Returns the failure that `e` reports. Its exit code is:
/// - for an Error, its own;
/// - for an error of the file system, `data`, but `resource` if memory, disk space or file descriptors are exhausted;
/// - for another error of the system (output that cannot be printed, a thread that cannot be started), `resource`;
/// - for lack of memory, `resource`;
/// - for any other exception, 1, because it is a bug.
Failure failure_of(const std::exception& e);

/// Calls `work` and returns the failure that its exception reports, or an empty Failure if it throws none. Ranks can
/// thus exchange their failures, so that none of them waits for a rank that has failed. If `work` is collective, it
/// must throw the same exception on all ranks.
template <class F>
Failure attempted(F&& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return failure_of(e);
  }
  return {};
}

/// True if `e` reports that the reader closed the pipe to which the program prints (`| head`).
bool is_closed_pipe(const std::exception& e);

}  // namespace hexad::base
