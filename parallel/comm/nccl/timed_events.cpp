#include "parallel/comm/nccl/timed_events.h"

#include <mutex>
#include <vector>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::comm::nccl {

using device::cuda::check;

struct TimedEvents::Pool {
  const int ordinal;
  std::mutex mutex{};
  std::vector<cudaEvent_t> unused{};

  explicit Pool(int card) : ordinal(card) {}
  // Ignores errors, because CUDA may already be shut down.
  ~Pool() {
    for (cudaEvent_t event : unused) static_cast<void>(cudaEventDestroy(event));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  cudaEvent_t take() {
    {
      std::lock_guard lock(mutex);
      if (!unused.empty()) {
        const cudaEvent_t event = unused.back();
        unused.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    const device::cuda::OnCard on(ordinal);
    check(cudaEventCreate(&event), "making an event");
    return event;
  }
};

TimedEvents::TimedEvents(int ordinal) : pool_(std::make_shared<Pool>(ordinal)) {}

TimedEvent TimedEvents::record(cudaStream_t stream) {
  TimedEvent event(pool_->take(), [pool = pool_](cudaEvent_t e) {
    std::lock_guard lock(pool->mutex);
    pool->unused.push_back(e);
  });
  check(cudaEventRecord(event.get(), stream), "recording an event");
  return event;
}

bool passed(const TimedEvent& event) {
  const cudaError_t state = cudaEventQuery(event.get());
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // clears the error, because "not ready" is a valid state
    return false;
  }
  check(state, "querying an event");
  return true;
}

double seconds_between(const TimedEvent& begin, const TimedEvent& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading an event's time");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace hexad::comm::nccl
