// Runs functions in child processes. A crash or hang of a child is reported as a result and does not end the program.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "framework/base/error.h"

namespace hexad::verify {

struct Isolated {
  std::string text{};                    // result of the work
  std::string failure{};                 // exception, signal, exit code or timeout that ended the work; empty: success
  std::optional<base::ExitCode> code{};  // exit code of the exception (base::failure_of()); empty: no exception
};

/// A child process that answers any number of requests. The first request forks this process to make the child. After a
/// crash or a hang, the next request makes a new child. The caller must be the process's only thread.
class IsolatedWorker {
 public:
  explicit IsolatedWorker(std::function<std::string(const std::string& request)> work) : work_(std::move(work)) {}
  ~IsolatedWorker() { end(); }
  IsolatedWorker(const IsolatedWorker&) = delete;
  IsolatedWorker& operator=(const IsolatedWorker&) = delete;

  /// Returns the result of `work` for `request`. Returns a failure if `work` throws an exception, if the child ends, or
  /// if the child does not answer within `seconds`. Throws Error(resource) if the child cannot be made.
  Isolated ask(const std::string& request, double seconds);
  /// Ends the child. The next request makes a new one.
  void end();
  /// Returns the number of children made so far.
  int children() const { return children_; }

 private:
  void start();
  int finish();

  std::function<std::string(const std::string&)> work_;
  pid_t child_ = 0;  // process id of the child; 0: there is none
  int socket_ = -1;  // socket connected to the child
  int children_ = 0;
};

/// Runs `work` in a new child process for at most `seconds`. Returns its result or a failure, like
/// IsolatedWorker::ask().
Isolated run_isolated(const std::function<std::string()>& work, double seconds);

}  // namespace hexad::verify
