// Blocking of signals in worker threads, so that the main thread receives them.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace hexad::base {

/// Blocks all signals except fault signals, such as SIGSEGV, in the calling thread while this object exists. Threads
/// that the calling thread starts during this time inherit the mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace hexad::base
