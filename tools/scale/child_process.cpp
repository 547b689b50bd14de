#include "tools/scale/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "framework/base/clock.h"
#include "framework/base/error.h"

namespace hexad::scale {
namespace {

constexpr double patience = 30;  // seconds between SIGTERM and SIGKILL

// Returns true if this process ignores the signal, such as SIGHUP after `nohup`. Ignored signals must not be blocked:
// the kernel keeps a blocked signal pending even if it is ignored, so sigtimedwait() would return it.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Signals that end this process. They are blocked while a child runs, so that the child can be ended first.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

class BlockedEndings {
 public:
  BlockedEndings() {
    const sigset_t set = ending_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedEndings() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedEndings(const BlockedEndings&) = delete;
  BlockedEndings& operator=(const BlockedEndings&) = delete;

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

pid_t spawn(const std::vector<std::string>& words, const std::string& output, const sigset_t& mask, int kept) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  if (kept >= 0) posix_spawn_file_actions_adddup2(&files, kept, kept);  // dup2 to the same number clears FD_CLOEXEC
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    base::fail(base::ExitCode::resource, "cannot start ", words.front(), " (output in ", output,
               "): ", std::strerror(error));
  return child;
}

// Waits for a signal of `set`, for at most `seconds`. Returns the signal, or 0 if none arrived.
int wait_for_signal(const sigset_t& set, double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec limit{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  const int signal = ::sigtimedwait(&set, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

bool has_ended(pid_t child, int& status) {
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, WNOHANG);
  while (ended < 0 && errno == EINTR);
  if (ended < 0)  // SIGCHLD is ignored, so the exit status of the child is lost
    base::fail(base::ExitCode::resource, "cannot wait for process ", child, ": ", std::strerror(errno));
  return ended == child;
}

}  // namespace

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

ChildEnd run_child(const std::vector<std::string>& words, const std::string& output, double limit_seconds, int kept) {
  base::require(!words.empty(), "[run_child] no words");
  const double start = base::now();
  int status = 0, received = 0;
  ChildEnd end;
  {
    const BlockedEndings blocked;
    const pid_t child = spawn(words, output, blocked.before(), kept);
    const sigset_t set = ending_signals();
    double asked_at = 0;
    while (!has_ended(child, status)) {
      const int signal = wait_for_signal(set, 0.02);
      const double now = base::now();
      if (signal != 0) received = signal;
      end.timed_out = end.timed_out || now - start > limit_seconds;
      if (asked_at > 0 && now - asked_at > patience) ::kill(-child, SIGKILL);
      if (asked_at > 0 || (received == 0 && !end.timed_out)) continue;
      ::kill(-child, SIGTERM);
      asked_at = now;
    }
  }
  if (received != 0) ::raise(received);
  end.seconds = base::now() - start;
  end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

}  // namespace hexad::scale
