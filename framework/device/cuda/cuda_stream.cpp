#include "framework/device/cuda/cuda_stream.h"

#include <chrono>

#include "framework/base/error.h"
#include "framework/device/cuda/check.h"

namespace hexad::device::cuda {

Card::Card(int ordinal) : ordinal_(ordinal) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "reading the properties of the card");
}

/// An event of which it is known when it was passed, from which the card measures the time to others.
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
  /// CUDA's times are floats: of 16 s they know the microsecond.
  bool is_old() const { return now() - passed_at_ > 16; }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  cudaEvent_t event_ = nullptr;
  double passed_at_ = 0;
};

/// Owns its event while somebody holds it; then the queue may use the event again.
class Queue::Mark final : public DeviceMark {
 public:
  /// `clock`: null where nobody asks for the time.
  Mark(std::shared_ptr<Queue> queue, cudaEvent_t event, Unused& unused, std::shared_ptr<const Clock> clock)
      : queue_(std::move(queue)), event_(event), unused_(unused), clock_(std::move(clock)) {}
  ~Mark() override {
    std::lock_guard lock(queue_->mutex_);
    unused_.push_back(event_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  bool passed() const override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // an answer, not an error
      return false;
    }
    check(state, "asking for an event");
    return true;
  }
  void wait() const override { check(cudaEventSynchronize(event_), "waiting for an event"); }

  double passed_at() const override {
    base::require(clock_ != nullptr, "[cuda] a mark without a time was asked for it");
    return clock_->passed_at(event_);
  }

  const Queue* queue() const { return queue_.get(); }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Queue> queue_;
  cudaEvent_t event_;
  Unused& unused_;  // of the queue
  std::shared_ptr<const Clock> clock_;
};

Queue::Queue(int ordinal, int priority) : ordinal_(ordinal) {
  check(cudaSetDevice(ordinal), "choosing the card");
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority), "making a stream");
}

// Errors are of no use here: the process may be ending, and CUDA may be gone already.
Queue::~Queue() {
  for (const Unused* unused : {&plain_, &timed_})
    for (cudaEvent_t event : *unused) static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaStreamDestroy(handle_));
}

std::shared_ptr<const DeviceMark> Queue::record() { return record(plain_, cudaEventDisableTiming, nullptr); }

std::shared_ptr<const DeviceMark> Queue::record_timed() {
  std::shared_ptr<const Clock> clock;
  {
    std::lock_guard lock(mutex_);
    if (!clock_ || clock_->is_old()) clock_ = std::make_shared<Clock>(handle_);
    clock = clock_;
  }
  return record(timed_, cudaEventDefault, std::move(clock));
}

std::shared_ptr<const DeviceMark> Queue::record(Unused& unused, unsigned flags, std::shared_ptr<const Clock> clock) {
  cudaEvent_t event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!unused.empty()) {
      event = unused.back();
      unused.pop_back();
    }
  }
  if (!event) {
    check(cudaSetDevice(ordinal_), "choosing the card");  // this thread may be one that never did
    check(cudaEventCreateWithFlags(&event, flags), "making an event");
  }
  const auto mark = std::make_shared<Mark>(shared_from_this(), event, unused, std::move(clock));
  check(cudaEventRecord(event, handle_), "recording an event");
  return mark;
}

void Queue::wait(const Event& event) {
  const auto mark = std::dynamic_pointer_cast<const Mark>(event.launched());
  if (!mark) return event.wait();
  if (mark->queue() != this) check(cudaStreamWaitEvent(handle_, mark->event(), 0), "making a stream wait");
}

void Queue::synchronize() const { check(cudaStreamSynchronize(handle_), "waiting for a stream"); }

void CudaStream::run(std::function<void()>) {
  base::fail_invariant("[cuda] a stream of the card takes kernels and copies, no work of the host");
}

CudaStream& cuda_stream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  base::require(cuda != nullptr, "[cuda] a kernel of the card was given a stream of another device");
  return *cuda;
}

}  // namespace hexad::device::cuda
