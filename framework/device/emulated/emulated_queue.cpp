#include "framework/device/emulated/emulated_queue.h"

#include <pthread.h>

#include <atomic>
#include <chrono>

#include "framework/base/blocked_signals.h"
#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/device/emulated/heap.h"

namespace hexad::device::emulated {

class Queue::Mark final : public DeviceMark {
 public:
  explicit Mark(const Queue& queue) : queue_(&queue) {}
  bool passed() const override { return passed_; }
  void wait() const override {
    passed_.wait(false);
    if (error_) std::rethrow_exception(error_);
  }
  double passed_at() const override { return passed_at_; }
  bool is_of(const Queue& queue) const { return queue_ == &queue; }
  bool passed_well() const { return passed_ && !error_; }
  void pass(std::exception_ptr error) {
    error_ = std::move(error);
    passed_at_ = base::now();
    passed_ = true;
    passed_.notify_all();
  }

 private:
  const Queue* queue_;
  std::atomic<bool> passed_ = false;
  std::exception_ptr error_;  // error_ and passed_at_ are written before passed_ is set
  double passed_at_ = 0;
};

Queue::Queue(const std::string& name, std::optional<uint64_t> jitter_seed)
    : name_(name),
      jitter_(jitter_seed ? std::optional<base::Philox>({*jitter_seed, base::Purpose::jitter, name}) : std::nullopt) {
  const base::BlockedSignals blocked;
  thread_ = std::thread([this] { loop(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Queue::~Queue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Queue::push(std::function<void()> work, bool launch) {
  bool asleep = false;
  {
    std::lock_guard lock(mutex_);
    work_.push_back({std::move(work), launch ? std::optional(launched_++) : std::nullopt});
    asleep = !running_;
  }
  if (asleep) changed_.notify_one();
}

void Queue::launch(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }
  push(std::move(work), true);
}

std::shared_ptr<const DeviceMark> Queue::record() {
  const auto mark = std::make_shared<Mark>(*this);
  {
    std::unique_lock lock(mutex_);
    if (work_.empty() && !running_) {  // an idle queue passes the mark immediately
      const std::exception_ptr error = error_;
      lock.unlock();
      mark->pass(error);
      return mark;
    }
  }
  push([this, mark] {
    std::unique_lock lock(mutex_);
    const std::exception_ptr error = error_;
    lock.unlock();
    mark->pass(error);
  });
  return mark;
}

void Queue::wait(const Event& event) {
  const auto mark = std::dynamic_pointer_cast<const Mark>(event.launched());
  if (!mark) return event.wait();
  // The closure owns the mark, not the event, because an event may own memory, which the queue's thread must not free.
  if (!mark->is_of(*this) && !mark->passed_well()) push([mark] { mark->wait(); });
}

void Queue::delay(uint64_t launch) const {
  if (!jitter_) return;
  constexpr uint64_t max_microseconds = 300;
  if (jitter_->below(2 * launch, 4) == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(jitter_->below(2 * launch + 1, max_microseconds)));
}

void Queue::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    running_ = false;
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    running_ = true;
    std::deque<Work> taken;
    taken.swap(work_);
    lock.unlock();
    for (Work& work : taken) {
      std::exception_ptr error;
      try {
        if (work.launch) delay(*work.launch);
        work.run();
      } catch (...) {
        error = std::current_exception();
      }
      work.run = nullptr;
      if (!error) continue;
      std::lock_guard again(mutex_);
      if (!error_) error_ = error;
    }
    taken.clear();
    lock.lock();
  }
}

void EmulatedStream::run(std::function<void()>) {
  base::fail_invariant(base::cat("[emulated device] host work was appended to the queue '", queue_->name(),
                                 "'; expected kernels and copies"));
}

void EmulatedStream::launch(std::span<void* const> blocks, std::function<void()> work) {
  for (void* block : blocks) heap_->touch(block, queue_);
  queue_->launch(std::move(work));
}

EmulatedStream& emulated_stream(Stream& stream) {
  auto* emulated = dynamic_cast<EmulatedStream*>(&stream);
  base::require(emulated != nullptr, "[emulated device] a kernel was given a stream of ",
                stream.on_device() ? "another device" : "the host", "; expected an EmulatedStream");
  return *emulated;
}

}  // namespace hexad::device::emulated
