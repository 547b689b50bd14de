#include "tools/hexad/signals.h"

#include <csignal>

namespace hexad::app {
namespace {

// The one kind of state that a signal handler may touch has to be global.
volatile std::sig_atomic_t requested = 0;

void request(int) { requested = 1; }

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool preemption_requested() { return requested != 0; }

}  // namespace hexad::app
