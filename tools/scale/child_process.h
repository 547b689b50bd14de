// A program that runs as a child process, with a time limit.
#pragma once

#include <string>
#include <vector>

namespace hexad::scale {

/// End of a child process.
struct ChildEnd {
  int exit_code = 0;  // 128 + signal for a child that a signal ended
  bool timed_out = false;
  double seconds = 0;
};

/// Runs `words` with its output in the file `output` and no input. The child has its own process group. After
/// `limit_seconds`, the group receives SIGTERM, and SIGKILL 30 s later. If this process receives SIGINT, SIGTERM,
/// SIGHUP, SIGQUIT or SIGUSR1 and does not ignore it, the child receives SIGTERM, and this process ends by that signal.
/// Throws Error(resource) if the program cannot be started. The child inherits the descriptor `kept`, so that a lock on
/// it lasts as long as the child if this process is killed; -1: none.
ChildEnd run_child(const std::vector<std::string>& words, const std::string& output, double limit_seconds,
                   int kept = -1);

/// Divides a command line at spaces.
std::vector<std::string> words_of(const std::string& command);

}  // namespace hexad::scale
