#include "framework/device/stream.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "framework/base/blocked_signals.h"
#include "framework/device/host_wait.h"

namespace hexad::device {
namespace {

class WorkerStream final : public Stream {
 public:
  explicit WorkerStream(const std::string& name) {
    const base::BlockedSignals blocked;
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }

  ~WorkerStream() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void run(std::function<void()> work) override {
    push([this, work = std::move(work)] {
      if (!error_) work();  // after a failure, the remaining work is skipped, and all later events receive the error
    });
  }

  void wait(const Event& event) override {
    push([event] {
      const HostWait named("thread of a host's queue");
      event.wait();
    });
  }

  Event record() override {
    auto state = Event::make_state();
    push([this, state] { complete(state, error_); });
    return Event(state);
  }
  bool starts_late() const override { return true; }

 private:
  void push(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        work();
      } catch (...) {
        if (!error_) error_ = std::current_exception();
      }
      work = nullptr;  // destroys the closure's objects outside the lock
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::exception_ptr error_;  // used only by the worker thread
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Stream> make_worker_stream(const std::string& thread_name) {
  return std::make_unique<WorkerStream>(thread_name);
}

}  // namespace hexad::device
