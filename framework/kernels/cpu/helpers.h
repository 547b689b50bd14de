// Helper threads that compute for one thread.
#pragma once

#include <semaphore.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "framework/base/core_watch.h"

namespace hexad::kernels::cpu {

/// A count that one thread increments and other threads decrement. std::counting_semaphore is not used: before it
/// sleeps, it yields the core to any other runnable thread for as long as that thread runs.
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void give() { sem_post(&semaphore_); }
  bool try_take() { return sem_trywait(&semaphore_) == 0; }
  /// Spins for as long as `spin` allows, then sleeps.
  void take(base::BriefSpin& spin) {
    if (spin.until([this] { return try_take(); })) return;
    while (sem_wait(&semaphore_) != 0) {  // interrupted by a signal handler
    }
  }

 private:
  sem_t semaphore_;
};

/// Threads that take pieces of work from their owner thread, and sleep while there are none. They are created at first
/// use.
class Helpers {
 public:
  struct Work {
    void (*call)(const void* body, int64_t piece, int64_t pieces);
    const void* body;
    int64_t pieces;
  };

  Helpers();
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  /// Calls `work` for each piece. This thread takes the first piece, and then all pieces that no helper has begun, so a
  /// helper without a core delays no other thread. Returns when all pieces have been computed.
  void run(const Work& work);

 private:
  struct Helper {
    Semaphore given, done;
    bool begun = false;  // used only by the owner
    std::thread thread;
  };

  void add();
  void help(Helper& self, int64_t piece);

  std::vector<std::unique_ptr<Helper>> helpers_;
  Work work_{};  // call is null: exit
  base::BriefSpin spin_;
};

}  // namespace hexad::kernels::cpu
