// Exit code and message of an exception that ends the program.
#pragma once

#include <exception>
#include <string>

#include "framework/base/error.h"

namespace hexad::app {

struct Failure {
  base::ExitCode code;
  std::string text;  // message for the user
};

/// Returns the failure that `e` reports: for an Error, its own exit code; for an error of the file system, `data`; for
/// another error of the system (output that cannot be printed, a thread that cannot be started) and for lack of memory,
/// `resource`. Any other exception is a bug, whose exit code is 1.
Failure failure_of(const std::exception& e);

/// True if `e` reports that the reader closed the pipe to which the program prints (`| head`).
bool is_closed_pipe(const std::exception& e);

}  // namespace hexad::app
