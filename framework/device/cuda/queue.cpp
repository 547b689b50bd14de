#include "framework/device/cuda/queue.h"

#include <optional>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"
#include "framework/device/host_wait.h"

namespace hexad::device::cuda {

/// Reference event of a clock. CUDA measures the times of other events relative to this event.
class CardClock::Reference {
 public:
  Reference(int ordinal, cudaStream_t stream) : ordinal_(ordinal), event_(make(ordinal)), recorded_at_(base::now()) {
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  ~Reference() {
    ensure_card(ordinal_);
    static_cast<void>(cudaEventDestroy(event_));
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Returns the time, in seconds of base::now(), at which the card passed `event`. The first call waits for the work
  /// issued so far in `stream`.
  double passed_at(cudaEvent_t event, cudaStream_t stream) const { return time(stream) + seconds(event_, event); }
  /// True if a new reference is needed. CUDA returns times as floats, whose resolution is 1 microsecond or better only
  /// up to 16 s.
  bool is_old() const { return base::now() - recorded_at_ > 16; }

 private:
  static cudaEvent_t make(int ordinal) {
    const OnCard on(ordinal);
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "making an event");
    return event;
  }
  // Returns the seconds from `begin` to `end`; negative if `end` was passed before `begin`, as is possible for events
  // of two queues.
  static double seconds(cudaEvent_t begin, cudaEvent_t end) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "reading an event's time");
    return 1e-3 * static_cast<double>(milliseconds);
  }
  // Returns the time at which the card passed the reference: the host's time after waiting for a second event, less
  // the time between the two events.
  double time(cudaStream_t stream) const {
    std::lock_guard lock(mutex_);
    if (!time_) {
      const HostWait named("clock of the card");
      const std::unique_ptr<CUevent_st, cudaError_t (*)(cudaEvent_t)> second(make(ordinal_), cudaEventDestroy);
      check(cudaStreamWaitEvent(stream, event_, 0), "making a stream wait");
      check(cudaEventRecord(second.get(), stream), "recording an event");
      check(cudaEventSynchronize(second.get()), "waiting for an event");
      time_ = base::now() - seconds(event_, second.get());
    }
    return *time_;
  }

  const int ordinal_;
  const cudaEvent_t event_;
  const double recorded_at_;
  mutable std::mutex mutex_;  // guards time_
  mutable std::optional<double> time_;
};

std::shared_ptr<const CardClock::Reference> CardClock::reference(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  if (!newest_ || newest_->is_old()) newest_ = std::make_shared<const Reference>(ordinal_, stream);
  return newest_;
}

/// A mark that owns a CUDA event. The destructor returns the event to the queue's pool.
class Queue::Mark final : public DeviceMark {
 public:
  /// `reference` is null for marks that record no time.
  Mark(std::shared_ptr<Queue> queue, cudaEvent_t event, Unused& unused,
       std::shared_ptr<const CardClock::Reference> reference)
      : queue_(std::move(queue)), event_(event), unused_(unused), reference_(std::move(reference)) {}
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
    base::require(timed(),
                  "[cuda] passed_at() was called for a mark that records no time; expected a mark of record_timed()");
    ensure_card(queue_->ordinal());
    return reference_->passed_at(event_, queue_->handle_);
  }
  bool timed() const override { return reference_ != nullptr; }

  const Queue* queue() const { return queue_.get(); }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Queue> queue_;
  cudaEvent_t event_;
  Unused& unused_;  // pool of the queue, to which the event returns
  std::shared_ptr<const CardClock::Reference> reference_;
};

Queue::Queue(int ordinal, int priority, std::shared_ptr<CardClock> clock)
    : ordinal_(ordinal), clock_(clock ? std::move(clock) : std::make_shared<CardClock>(ordinal)) {
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
  ensure_card(ordinal_);
  std::lock_guard lock(mutex_);
  const auto mark = record_locked(timed_, cudaEventDefault, clock_->reference(handle_));
  if (handles_ == 0) end_ = mark;
  return mark;
}

// Records an event of the pool `unused`. The caller must hold the mutex; otherwise a Handle could be created between
// the recording of the event and the caller's check of handles_.
std::shared_ptr<const Queue::Mark> Queue::record_locked(Unused& unused, unsigned flags,
                                                        std::shared_ptr<const CardClock::Reference> reference) {
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
  return std::make_shared<const Mark>(shared_from_this(), event, unused, std::move(reference));
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
