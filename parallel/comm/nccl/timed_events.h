// Pool of card events that record the time at which a stream passes them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace hexad::comm::nccl {

/// Event that returns to its pool when its last owner is destroyed.
using TimedEvent = std::shared_ptr<CUevent_st>;

/// Timed events of one card. Thread-safe.
class TimedEvents {
 public:
  explicit TimedEvents(int ordinal);
  /// Records an event at the current end of `stream`.
  TimedEvent record(cudaStream_t stream);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

/// True if the stream has passed the event. Throws Error(resource) if the card has failed.
bool passed(const TimedEvent& event);
/// Returns the seconds between two events, both of which must have been passed.
double seconds_between(const TimedEvent& begin, const TimedEvent& end);

}  // namespace hexad::comm::nccl
