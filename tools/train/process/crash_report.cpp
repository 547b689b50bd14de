#include "tools/train/process/crash_report.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace hexad::train {
namespace {

// The signal handler uses these variables, so they must be global and lock-free.
std::atomic<int> log_file = -1, crashed_rank = 0;
std::atomic<int64_t> crashed_step = 0;
alignas(64) std::array<char, 1 << 16> handler_stack;  // separate, because the thread's own stack may have overflowed

constexpr int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV (segmentation fault)";
    case SIGBUS:
      return "SIGBUS (bus error)";
    case SIGFPE:
      return "SIGFPE (arithmetic error)";
    case SIGILL:
      return "SIGILL (illegal instruction)";
    default:
      return "SIGABRT (aborted)";
  }
}

// Builds a line of text without heap allocations and locks, which a signal handler must not use.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t n = text.copy(text_.data() + size_, text_.size() - size_);
    size_ += n;
    return *this;
  }
  Line& operator<<(int64_t number) {
    std::array<char, 20> digits;
    size_t first = digits.size();
    do digits[--first] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    return *this << std::string_view(digits.data() + first, digits.size() - first);
  }
  void write_to(int file) const {
    if (::write(file, text_.data(), size_) < 0) return;  // a failed report cannot be reported
  }

 private:
  std::array<char, 256> text_{};
  size_t size_ = 0;
};

void report(int signal) {
  std::array<void*, 64> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  Line line;
  line << "rank " << crashed_rank.load() << " crashed in step " << crashed_step.load() << ": " << name_of(signal)
       << "; backtrace:\n";
  for (const int file : {STDERR_FILENO, log_file.load()}) {
    if (file < 0) continue;
    line.write_to(file);
    backtrace_symbols_fd(frames.data(), count, file);
  }
  std::raise(signal);  // the default action, now restored, ends the process
}

}  // namespace

void install_crash_handlers() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads the unwinder now, because a signal handler cannot load it
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = report;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  for (const int signal : fatal_signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);
  }
}

void report_crashes_to(const std::filesystem::path& log, int rank) {
  crashed_rank = rank;
  const int before = log_file.exchange(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (before >= 0) ::close(before);
}

void report_end(std::string_view why) {
  if (log_file < 0) return;
  const std::string line =
      base::cat("rank ", crashed_rank.load(), " ends in step ", crashed_step.load(), ": ", why, "\n");
  if (::write(log_file, line.data(), line.size()) < 0) return;  // a failed report cannot be reported
}

void report_crashes_in_step(int64_t step) { crashed_step = step; }

}  // namespace hexad::train
