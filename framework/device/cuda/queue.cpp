#include "framework/device/cuda/queue.h"

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device::cuda {

/// A reference event whose host time is known. CUDA measures the times of other events relative to this event.
class Queue::Clock {
 public:
  explicit Clock(cudaStream_t queue) {
    check(cudaEventCreate(&event_), "making an event");
    check(cudaEventRecord(event_, queue), "recording an event");
    check(cudaEventSynchronize(event_), "waiting for an event");
    passed_at_ = now();
  }
  ~Clock() { static_cast<void>(cudaEventDestroy(event_)); }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  double passed_at(cudaEvent_t event) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_, event), "reading an event's time");
    return passed_at_ + 1e-3 * static_cast<double>(milliseconds);
  }
  /// True if a new clock is needed. CUDA returns times as floats, whose resolution is 1 microsecond or better only up
  /// to 16 s.
  bool is_old() const { return now() - passed_at_ > 16; }

 private:
  static double now() { return base::now(); }
  cudaEvent_t event_ = nullptr;
  double passed_at_ = 0;
};

/// A mark that owns a CUDA event. The destructor returns the event to the queue's pool.
class Queue::Mark final : public DeviceMark {
 public:
  /// `clock` is null for marks that record no time.
  Mark(std::shared_ptr<Queue> queue, cudaEvent_t event, Unused& unused, std::shared_ptr<const Clock> clock)
      : queue_(std::move(queue)), event_(event), unused_(unused), clock_(std::move(clock)) {}
  ~Mark() override {
    std::lock_guard lock(queue_->mutex_);
    unused_.push_back(event_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  bool passed() const override {
    ensure_card(queue_->ordinal());
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // clears "not ready", which is not an error
      return false;
    }
    check(state, "querying an event");
    return true;
  }
  void wait() const override {
    ensure_card(queue_->ordinal());
    check(cudaEventSynchronize(event_), "waiting for an event");
  }

  double passed_at() const override {
    base::require(clock_ != nullptr,
                  "[cuda] passed_at() was called for a mark that records no time; expected a mark of record_timed()");
    ensure_card(queue_->ordinal());
    return clock_->passed_at(event_);
  }

  const Queue* queue() const { return queue_.get(); }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Queue> queue_;
  cudaEvent_t event_;
  Unused& unused_;  // pool of the queue
  std::shared_ptr<const Clock> clock_;
};

Queue::Queue(int ordinal, int priority) : ordinal_(ordinal) {
  use_card(ordinal);
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority), "making a stream");
}

// Ignores errors, because the process may be ending and CUDA may be shut down already.
Queue::~Queue() {
  ensure_card(ordinal_);
  for (const Unused* unused : {&plain_, &timed_})
    for (cudaEvent_t event : *unused) static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaStreamDestroy(handle_));
}

Queue::Handle::Handle(Queue& queue) : queue_(queue) {
  ensure_card(queue_.ordinal_);
  std::lock_guard lock(queue_.mutex_);
  ++queue_.handles_;
  queue_.end_.reset();
}

Queue::Handle::~Handle() {
  std::lock_guard lock(queue_.mutex_);
  --queue_.handles_;
}

std::shared_ptr<const DeviceMark> Queue::record() {
  std::lock_guard lock(mutex_);
  if (const auto end = end_.lock()) return end;
  const auto mark = record_locked(plain_, cudaEventDisableTiming, nullptr);
  if (handles_ == 0) end_ = mark;
  return mark;
}

std::shared_ptr<const DeviceMark> Queue::record_timed() {
  std::lock_guard lock(mutex_);
  if (!clock_ || clock_->is_old()) {
    const OnCard on(ordinal_);
    clock_ = std::make_shared<Clock>(handle_);
  }
  return record_locked(timed_, cudaEventDefault, clock_);
}

// Records an event of the pool `unused`. The caller must hold the mutex; otherwise a Handle could be created between
// the recording of the event and the caller's check of handles_.
std::shared_ptr<const Queue::Mark> Queue::record_locked(Unused& unused, unsigned flags,
                                                        std::shared_ptr<const Clock> clock) {
  ensure_card(ordinal_);
  if (unused.empty()) {
    const OnCard on(ordinal_);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, flags), "making an event");
    unused.push_back(event);
  }
  const cudaEvent_t event = unused.back();
  check(cudaEventRecord(event, handle_), "recording an event");
  unused.pop_back();
  return std::make_shared<const Mark>(shared_from_this(), event, unused, std::move(clock));
}

void Queue::wait(const Event& event) {
  const auto mark = event.launched();
  if (dynamic_cast<const Mark*>(mark.get())) return wait(*mark);
  event.wait();
}

void Queue::wait(const DeviceMark& mark) {
  const auto& its = dynamic_cast<const Mark&>(mark);
  if (its.queue() == this) return;
  const Handle queue(*this);
  check(cudaStreamWaitEvent(queue.get(), its.event(), 0), "making a stream wait");
}

void Queue::synchronize() const {
  ensure_card(ordinal_);
  check(cudaStreamSynchronize(handle_), "waiting for a stream");
}

}  // namespace hexad::device::cuda
