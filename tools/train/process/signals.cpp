#include "tools/train/process/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

#include "tools/train/process/job_launcher.h"

namespace hexad::train {
namespace {

// A signal handler may use only atomic global state.
volatile std::sig_atomic_t requested = 0, ending = 0;
std::atomic<int64_t> first_at = 0;  // time of the first SIGINT, SIGTERM or SIGHUP in milliseconds
std::atomic<pid_t> mpirun = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

constexpr int64_t second = 1000;

int64_t monotonic_time() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * second + time.tv_nsec / 1'000'000;
}

void set_action(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void request(int) { requested = 1; }

void request_or_end(int signal, siginfo_t* info, void*) {
  requested = 1;
  if (ending == 0) ending = signal;
  int64_t first = 0;
  if (first_at.compare_exchange_strong(first, monotonic_time()) || monotonic_time() - first < second) return;
  if (info->si_code <= 0 && info->si_pid == mpirun) return;  // mpirun itself sent the signal
  end_by_signal(signal);                                     // the signal is delivered once this handler returns
}

// Installs request_or_end() for the signals that are not ignored.
void request_end_on(std::initializer_list<int> signals) {
  struct sigaction action {};
  action.sa_sigaction = request_or_end;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals)
    if (!ignored(signal)) sigaction(signal, &action, nullptr);
}

}  // namespace

void ignore_signals_of_writes() {
  for (int signal : {SIGPIPE, SIGXFSZ}) set_action(signal, SIG_IGN);
}

void save_and_end_on_signals() {
  mpirun = mpirun_process();
  set_action(SIGUSR1, request);
  request_end_on({SIGINT, SIGTERM});
}

void clean_up_and_end_on_signals() { request_end_on({SIGINT, SIGTERM, SIGHUP}); }

int ending_signal() { return ending; }

void end_by_signal(int signal) {
  set_action(signal, SIG_DFL);
  raise(signal);
}

bool preemption_requested() { return requested != 0; }

bool end_requested() { return first_at != 0; }

}  // namespace hexad::train
