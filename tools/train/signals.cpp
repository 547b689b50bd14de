#include "tools/train/signals.h"

#include <csignal>

namespace hexad::train {
namespace {

// The one kind of state that a signal handler may touch has to be global.
volatile std::sig_atomic_t requested = 0;

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

void request_once(int) {
  requested = 1;
  for (int signal : {SIGINT, SIGTERM})
    if (!ignored(signal)) set_action(signal, SIG_DFL);
}

}  // namespace

void ignore_closed_pipes() { set_action(SIGPIPE, SIG_IGN); }

void save_and_end_on_signals() {
  set_action(SIGUSR1, request);
  for (int signal : {SIGINT, SIGTERM})
    if (!ignored(signal)) set_action(signal, request_once);
}

bool preemption_requested() { return requested != 0; }

}  // namespace hexad::train
