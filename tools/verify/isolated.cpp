#include "tools/verify/isolated.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/failure.h"

namespace hexad::verify {
namespace {

using base::cat;
using Clock = std::chrono::steady_clock;

// First byte of an answer. If the work threw an exception, its exit code is the second byte.
constexpr char returned = 'R', threw = 'T';

// Sends all bytes. Returns false if the other process has ended.
bool send_all(int socket, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}
bool send_message(int socket, const std::string& text) {
  const uint64_t size = text.size();
  std::string head(sizeof size, '\0');
  std::memcpy(head.data(), &size, sizeof size);
  return send_all(socket, head + text);
}

enum class Received : uint8_t { all, closed, late };

Received receive_bytes(int socket, Clock::time_point end, std::string& bytes, size_t size) {
  std::array<char, 1 << 16> buffer{};
  for (bytes.clear(); bytes.size() < size;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return Received::late;
    pollfd waiting{socket, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready <= 0) continue;  // interrupted by a signal, or timed out
    const ssize_t n = ::recv(socket, buffer.data(), std::min(buffer.size(), size - bytes.size()), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Received::closed;
    bytes.append(buffer.data(), n);
  }
  return Received::all;
}
Received receive_message(int socket, Clock::time_point end, std::string& text) {
  uint64_t size = 0;
  const Received head = receive_bytes(socket, end, text, sizeof size);
  if (head != Received::all) return head;
  std::memcpy(&size, text.data(), sizeof size);
  return receive_bytes(socket, end, text, size);
}

[[noreturn]] void be_child(int socket, const std::function<std::string(const std::string&)>& work) {
  std::string request;
  while (receive_message(socket, Clock::time_point::max(), request) == Received::all) {
    std::string answer;
    try {
      answer = returned + work(request);
    } catch (const std::exception& e) {
      const base::Failure failure = base::failure_of(e);
      answer = cat(threw, static_cast<char>(failure.code), failure.text);
    }
    std::fflush(nullptr);
    if (!send_message(socket, answer)) break;
  }
  ::_exit(0);  // skips destructors, which must run only in the parent
}

}  // namespace

void IsolatedWorker::start() {
  std::array<int, 2> ends{};
  std::fflush(nullptr);  // otherwise, the child would also print the buffered output
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    base::fail(base::ExitCode::resource, "cannot open a socket to a child process: ", std::strerror(errno),
               "; raise the limit of open files (ulimit -n)");
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) {
    const int error = errno;
    child_ = 0;
    ::close(ends[0]), ::close(ends[1]);
    base::fail(base::ExitCode::resource, "cannot start a child process: ", std::strerror(error),
               "; raise the limit of processes (ulimit -u)");
  }
  if (child_ == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the parent ends, the child must end, because no process reads its answers
    if (::getppid() != parent) ::_exit(1);
    be_child(ends[1], work_);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  ++children_;
}

// Closes the socket, waits for the child and returns its status.
int IsolatedWorker::finish() {
  ::close(std::exchange(socket_, -1));
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = 0;
  return status;
}

void IsolatedWorker::end() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);  // the child may hang, and a regular exit may take long to free the memory
  finish();
}

Isolated IsolatedWorker::ask(const std::string& request, double seconds) {
  if (child_ == 0) start();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::string answer;
  const Received received = send_message(socket_, request) ? receive_message(socket_, end, answer) : Received::closed;
  if (received == Received::all) {
    if (answer[0] == threw) return {{}, answer.substr(2), static_cast<base::ExitCode>(answer[1])};
    return {answer.substr(1)};
  }
  if (received == Received::late) {
    this->end();
    return {{}, cat("no result after ", seconds, " s")};
  }
  const int status = finish();
  if (WIFSIGNALED(status))
    return {{}, cat("ended by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")};
  return {{}, cat("ended with exit code ", WEXITSTATUS(status))};
}

Isolated run_isolated(const std::function<std::string()>& work, double seconds) {
  return IsolatedWorker([&](const std::string&) { return work(); }).ask({}, seconds);
}

}  // namespace hexad::verify
