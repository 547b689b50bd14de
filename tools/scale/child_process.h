// Programs that run as child processes, each with a time limit.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hexad::scale {

/// Result of a child process that has ended.
struct ChildEnd {
  int exit_code = 0;  // 128 + signal if a signal ended the child
  bool timed_out = false;
  double seconds = 0;
};

/// Child processes that run at the same time. Each has its own process group. wait() sends SIGTERM to all children if
/// this process gets a SIGINT, SIGTERM, SIGHUP, SIGQUIT or SIGUSR1 that it does not ignore. wait() still returns the
/// end of each child. After the last child has ended, end_if_interrupted() ends this process by the received signal.
/// The signals are blocked during the life of the object. The destructor ends children that still run.
class Children {
 public:
  Children();
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Runs `words` with its output in the file `output` and no input. Returns the number of the child. After
  /// `limit_seconds`, its process group receives SIGTERM, and SIGKILL 30 s later. The child inherits the file
  /// descriptors `kept`. Therefore, locks on these files last as long as the child, even if this process is killed.
  /// Throws Error(resource) if the program cannot be started.
  int64_t start(const std::vector<std::string>& words, const std::string& output, double limit_seconds,
                const std::vector<int>& kept = {});
  /// Waits until a child ends. Returns its number and its end. Requires a running child. Throws Error(resource) if this
  /// process ignores SIGCHLD, because the exit status of a child is then lost.
  std::pair<int64_t, ChildEnd> wait();
  /// True once wait() has received a signal.
  bool interrupted() const { return received_ != 0; }
  /// Ends this process by the received signal. Returns if no signal was received, or if a handler of this process
  /// catches the signal. Requires that no child runs.
  void end_if_interrupted();

 private:
  struct Child {
    int64_t number;
    pid_t process;
    double start, limit_seconds;
    double asked_at = 0;  // time of SIGTERM; 0: not sent
    bool timed_out = false;
  };
  std::optional<std::pair<int64_t, ChildEnd>> take_ended();
  void ask_to_end(bool all);

  std::vector<Child> running_{};
  int64_t started_ = 0;
  int received_ = 0;  // signal that wait() has received; 0: none
  sigset_t ending_{}, before_{};
};

/// Divides a command line at white space. Quotes have no meaning.
std::vector<std::string> words_of(const std::string& command);

}  // namespace hexad::scale
