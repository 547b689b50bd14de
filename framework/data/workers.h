// Threads that share the work of `hexad prepare`.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hexad::data {

class Workers {
 public:
  using Job = std::function<void()>;

  /// Starts `threads` threads, at least 1. Throws Error(resource) if the system cannot start that many threads.
  explicit Workers(int threads);
  /// Waits for the jobs that have begun, and drops all other jobs.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t count() const { return threads_.size(); }
  /// Adds a job, which must not throw. Jobs begin in the order in which they are added.
  void submit(Job job);
  /// Calls f(0) to f(count - 1) on the threads and waits for all calls. A single call is made on the caller's thread.
  /// Rethrows the exception of the call with the lowest index if calls throw. Must not be called in a job.
  void run(size_t count, const std::function<void(size_t index)>& f);

 private:
  void work();
  void stop();

  std::mutex mutex_;  // guards jobs_ and stop_
  std::condition_variable submitted_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hexad::data
