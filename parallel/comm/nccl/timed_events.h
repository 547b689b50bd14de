// Events of the card that know when they were passed, used again and again.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace hexad::comm::nccl {

/// Goes back to its pool when nobody holds it.
using TimedEvent = std::shared_ptr<CUevent_st>;

/// Timed events of one card. Thread-safe.
class TimedEvents {
 public:
  explicit TimedEvents(int ordinal);
  /// Recorded at the present end of `stream`.
  TimedEvent record(cudaStream_t stream);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

/// Throws Error(resource) when the card has failed.
bool passed(const TimedEvent& event);
/// Returns the seconds between two events that have passed.
double seconds_between(const TimedEvent& begin, const TimedEvent& end);

}  // namespace hexad::comm::nccl
