// A queue of the card.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/device/event.h"

namespace hexad::device::cuda {

/// A CUDA stream that does not wait for the default one, with the events recorded in it. Lives in a shared_ptr:
/// streams, allocators and marks hold it. Safe to use from several threads.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  /// `priority`: CUDA's, lower numbers first; a priority that the card lacks becomes the nearest one. Makes the card
  /// the calling thread's.
  Queue(int ordinal, int priority);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// For a launch, a copy, a collective: the end of the queue is another one afterwards.
  cudaStream_t handle();
  int ordinal() const { return ordinal_; }
  /// The present end of the queue; the same mark while nothing is appended.
  std::shared_ptr<const DeviceMark> record();
  /// Like record(), but the mark also records the time at which it was passed.
  std::shared_ptr<const DeviceMark> record_timed();
  /// Makes this queue wait for marks of other queues; its own marks need no wait. Blocks the host for any other event.
  void wait(const Event& event);
  void wait(const DeviceMark& mark);
  /// Blocks the host until the queue is empty.
  void synchronize() const;

 private:
  class Mark;
  class Clock;
  /// Pool of unused events of one kind: creating an event costs several times as much as recording it.
  using Unused = std::vector<cudaEvent_t>;
  std::shared_ptr<const Mark> record(Unused& unused, unsigned flags, std::shared_ptr<const Clock> clock);

  int ordinal_;
  cudaStream_t handle_ = nullptr;
  std::mutex mutex_;  // guards what follows
  Unused plain_, timed_;
  std::shared_ptr<const Clock> clock_;
  std::weak_ptr<const Mark> end_;  // the last plain mark, unless something came after it
  std::thread::id user_;           // the last thread that asked for the handle
  bool several_users_ = false;
};

}  // namespace hexad::device::cuda
