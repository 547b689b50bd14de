// A program that runs as a child process, with a time limit.
#pragma once

#include <string>
#include <vector>

namespace hexad::scale {

/// Result of a child process that has ended.
struct ChildEnd {
  int exit_code = 0;  // 128 + signal if a signal ended the child
  bool timed_out = false;
  double seconds = 0;
};

/// Runs `words` with its output in the file `output` and no input. The child has its own process group. After
/// `limit_seconds`, the group receives SIGTERM, and SIGKILL 30 s later. If this process receives SIGINT, SIGTERM,
/// SIGHUP, SIGQUIT or SIGUSR1 and does not ignore it, sends SIGTERM to the child and ends this process by the received
/// signal.
/// The child inherits the file descriptor `kept` (-1: none). If this process is killed, a lock on it thus lasts as long
/// as the child. Throws Error(resource) if the program cannot be started.
ChildEnd run_child(const std::vector<std::string>& words, const std::string& output, double limit_seconds,
                   int kept = -1);

/// Divides a command line at spaces.
std::vector<std::string> words_of(const std::string& command);

}  // namespace hexad::scale
