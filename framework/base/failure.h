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

/// Returns the failure that `e` reports. The exit code is:
/// - the code of the Error if `e` is an Error;
/// - `resource` for an error of the file system if memory, disk space or file descriptors are exhausted;
/// - `data` for any other error of the file system;
/// - `resource` for another error of the system, for example if output cannot be printed or a thread cannot be started;
/// - `resource` for lack of memory;
/// - 1 for any other exception, because it is a bug.
Failure failure_of(const std::exception& e);

/// Calls `work`. Returns the failure that an exception of `work` reports, or an empty Failure if `work` does not throw.
/// The ranks can exchange these failures, so that no rank waits for a rank that has failed. A collective `work` must
/// throw the same exception on all ranks.
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
