// Helper threads for the kernels of one thread.
#pragma once

#include <semaphore.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "framework/base/core_watch.h"

namespace hexad::kernels::cpu {

/// Counting semaphore that only one thread increments. It replaces std::counting_semaphore, in which a waiting thread
/// first yields its core to other runnable threads and may therefore resume late.
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void give() { sem_post(&semaphore_); }
  bool try_take() { return sem_trywait(&semaphore_) == 0; }
  /// Waits until the count is positive, and decrements it. Spins as long as `spin` allows, then sleeps.
  void take(base::BriefSpin& spin) {
    if (spin.until([this] { return try_take(); })) return;
    while (sem_wait(&semaphore_) != 0) {  // repeats the wait if a signal handler interrupted it
    }
  }

 private:
  sem_t semaphore_;
};

/// Threads that compute pieces of the work of an owner thread and sleep when there is no work. Each thread is created
/// at its first use.
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

  /// Calls `work` for each piece and returns when all pieces have been computed. The calling thread computes the first
  /// piece, then every piece that no helper has begun. Therefore a helper that is not scheduled does not delay the
  /// call.
  void run(const Work& work);

 private:
  struct Helper {
    Semaphore given, done;
    bool begun = false;  // true if the thread has begun its piece; accessed only by the owner
    std::thread thread;
  };

  void add();
  void help(Helper& self, int64_t piece);

  std::vector<std::unique_ptr<Helper>> helpers_;
  Work work_{};  // if `call` is null, the threads exit
  base::BriefSpin spin_;
};

}  // namespace hexad::kernels::cpu
