#include "tools/hexad/verify/isolated.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "framework/base/error.h"

namespace hexad::verify {
namespace {

using base::cat;
using Clock = std::chrono::steady_clock;

constexpr char returned = 'R', threw = 'T';

void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return;  // the parent has gone
    if (n > 0) done += static_cast<size_t>(n);
  }
}

[[noreturn]] void be_child(int file, const std::function<std::string()>& work) {
  std::string answer;
  try {
    answer = returned + work();
  } catch (const std::exception& e) {
    answer = threw + std::string(e.what());
  }
  write_all(file, answer);
  std::fflush(nullptr);
  ::_exit(0);
}

// Reads until the child closes its end; false when the time is over.
bool read_all(int file, Clock::time_point end, std::string& text) {
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{file, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t n = ::read(file, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
}

}  // namespace

Isolated run_isolated(const std::function<std::string()>& work, double seconds) {
  std::array<int, 2> ends{};
  std::fflush(nullptr);  // or the child would print it again
  if (::pipe(ends.data()) != 0)
    base::fail(base::ExitCode::resource, "no pipe to a child process: ", std::strerror(errno));
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) base::fail(base::ExitCode::resource, "no child process: ", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read its answer
    if (::getppid() != parent) ::_exit(1);
    be_child(ends[1], work);
  }
  ::close(ends[1]);
  std::string answer;
  const auto time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const bool in_time = read_all(ends[0], Clock::now() + time, answer);
  ::close(ends[0]);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return {{}, cat("no result after ", seconds, " s")};
  if (WIFSIGNALED(status))
    return {{}, cat("ended by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")};
  if (answer.empty()) return {{}, cat("ended with exit code ", WEXITSTATUS(status))};
  if (answer[0] == threw) return {{}, answer.substr(1)};
  return {answer.substr(1), {}};
}

}  // namespace hexad::verify
