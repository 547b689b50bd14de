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

// True if this process ignores the signal, such as SIGHUP after `nohup`. Ignored signals must not be blocked: the
// kernel keeps a blocked signal pending even if it is ignored, so sigtimedwait() would return it.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Returns the signals that end this process. The signals are blocked while children run, so that the children can be
// ended first.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

pid_t spawn(const std::vector<std::string>& words, const std::string& output, const sigset_t& mask,
            const std::vector<int>& kept) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  for (const int descriptor : kept)  // dup2 to the same number clears FD_CLOEXEC
    posix_spawn_file_actions_adddup2(&files, descriptor, descriptor);
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

// Returns `child` if it has ended, 0 if it runs, and -1 if its state is unknown. Sets `status` if it has ended.
pid_t state_of(pid_t child, int& status) {
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, WNOHANG);
  while (ended < 0 && errno == EINTR);
  return ended;
}

}  // namespace

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Children::Children() : ending_(ending_signals()) { ::pthread_sigmask(SIG_BLOCK, &ending_, &before_); }

Children::~Children() {
  while (!running_.empty()) {
    ask_to_end(true);
    try {
      take_ended();
    } catch (const base::Error&) {  // take_ended() has removed the child, and a destructor must not throw
    }
    wait_for_signal(ending_, 0.02);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int64_t Children::start(const std::vector<std::string>& words, const std::string& output, double limit_seconds,
                        const std::vector<int>& kept) {
  base::require(!words.empty(), "[Children::start] the command has no words; expected a program's name");
  const double now = base::now();
  running_.push_back({.number = started_,
                      .process = spawn(words, output, before_, kept),
                      .start = now,
                      .limit_seconds = limit_seconds});
  return started_++;
}

std::pair<int64_t, ChildEnd> Children::wait() {
  base::require(!running_.empty(), "[Children::wait] no child runs; expected at least one");
  while (true) {
    if (const auto ended = take_ended()) return *ended;
    if (const int signal = wait_for_signal(ending_, 0.02); signal != 0) received_ = signal;
    ask_to_end(received_ != 0);
  }
}

// Removes an ended child from running_. Returns its number and end; none if all children still run.
std::optional<std::pair<int64_t, ChildEnd>> Children::take_ended() {
  for (auto child = running_.begin(); child != running_.end(); ++child) {
    int status = 0;
    const pid_t process = child->process, ended = state_of(process, status);
    if (ended == 0) continue;
    if (ended < 0) {  // SIGCHLD is ignored, so the exit status of the child is lost
      const int error = errno;
      running_.erase(child);
      base::fail(base::ExitCode::resource, "cannot wait for process ", process, ": ", std::strerror(error),
                 "; start this program so that it does not ignore SIGCHLD");
    }
    const ChildEnd end{.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                       .timed_out = child->timed_out,
                       .seconds = base::now() - child->start};
    const int64_t number = child->number;
    running_.erase(child);
    return std::pair(number, end);
  }
  return std::nullopt;
}

// Sends SIGTERM to children that have exceeded their time limits, or to all children if `all`. A call more than
// `patience` seconds later sends SIGKILL to the children that still run.
void Children::ask_to_end(bool all) {
  const double now = base::now();
  for (Child& child : running_) {
    child.timed_out = child.timed_out || now - child.start > child.limit_seconds;
    if (child.asked_at > 0 && now - child.asked_at > patience) ::kill(-child.process, SIGKILL);
    if (child.asked_at > 0 || !(all || child.timed_out)) continue;
    ::kill(-child.process, SIGTERM);
    child.asked_at = now;
  }
}

void Children::end_if_interrupted() {
  base::require(running_.empty(), "[Children::end_if_interrupted] a child runs; expected none");
  if (received_ == 0) return;
  const int signal = std::exchange(received_, 0);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  ::raise(signal);
  ::pthread_sigmask(SIG_BLOCK, &ending_, nullptr);
}

}  // namespace hexad::scale
