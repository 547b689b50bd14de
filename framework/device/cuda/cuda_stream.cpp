#include "framework/device/cuda/cuda_stream.h"

#include "framework/base/error.h"
#include "framework/device/cuda/check.h"

namespace hexad::device::cuda {

Card::Card(int ordinal) : ordinal_(ordinal) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "reading the properties of the card");
}

/// Owns its event while somebody holds it; then the queue may use the event again.
class Queue::Mark final : public DeviceMark {
 public:
  Mark(std::shared_ptr<Queue> queue, cudaEvent_t event) : queue_(std::move(queue)), event_(event) {}
  ~Mark() override {
    std::lock_guard lock(queue_->mutex_);
    queue_->unused_.push_back(event_);
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

  const Queue* queue() const { return queue_.get(); }
  cudaEvent_t event() const { return event_; }

 private:
  std::shared_ptr<Queue> queue_;
  cudaEvent_t event_;
};

Queue::Queue(int ordinal, int priority) : ordinal_(ordinal) {
  check(cudaSetDevice(ordinal), "choosing the card");
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority), "making a stream");
}

// Errors are of no use here: the process may be ending, and CUDA may be gone already.
Queue::~Queue() {
  for (cudaEvent_t event : unused_) static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaStreamDestroy(handle_));
}

std::shared_ptr<const DeviceMark> Queue::record() {
  cudaEvent_t event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      event = unused_.back();
      unused_.pop_back();
    }
  }
  if (!event) {
    check(cudaSetDevice(ordinal_), "choosing the card");  // this thread may be one that never did
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  }
  const auto mark = std::make_shared<Mark>(shared_from_this(), event);
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
