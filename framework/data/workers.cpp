#include "framework/data/workers.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

// Counts unfinished jobs that use local variables of the function that waits for them.
class OpenJobs {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) ended_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t open_ = 0;
};

}  // namespace

Workers::Workers(int threads) {
  threads_.reserve(std::max(1, threads));
  try {
    for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();  // without stop(), the destructors of the threads would end the program
    base::fail(base::ExitCode::resource, "only ", started, " of ", threads, " threads could be started (",
               error.code().message(), "); give a smaller --workers");
  } catch (...) {  // the system lacks memory
    stop();
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  submitted_.notify_one();
}

void Workers::run(size_t count, const std::function<void(size_t)>& f) {
  if (count == 1) return f(0);
  std::vector<std::exception_ptr> errors(count);
  OpenJobs open;
  const auto call = [&](size_t index) {
    try {
      f(index);
    } catch (...) {
      errors[index] = std::current_exception();
    }
    open.end();
  };
  for (size_t index = 0; index < count; ++index) {
    open.begin();
    try {
      submit([&call, index] { call(index); });
    } catch (...) {  // the system lacks memory
      open.end();
      open.wait();
      throw;
    }
  }
  open.wait();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    submitted_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace hexad::data
