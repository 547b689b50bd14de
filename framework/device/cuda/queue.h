// A queue of the card.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/event.h"

namespace hexad::device::cuda {

/// A CUDA stream that does not wait for the default stream, with the events recorded in it. Owned by shared_ptr:
/// streams, allocators and marks hold it. Thread-safe: any thread may free memory, and so record a mark. A thread that
/// has no current card gets the queue's card.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  /// `priority` is CUDA's: lower numbers first. If the card lacks this priority, the nearest existing one is used.
  /// Makes the card current in the calling thread.
  Queue(int ordinal, int priority);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Permission to append launches, copies and collectives during the lifetime of this object. The queue must outlive
  /// it. A mark that is recorded meanwhile is never reused as the end of the queue, because later launches may follow
  /// it.
  class Handle {
   public:
    explicit Handle(Queue& queue);
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    /// Returns the CUDA stream. Use it during the lifetime of this object only.
    cudaStream_t get() const& { return queue_.handle_; }
    cudaStream_t get() const&& = delete;  // the stream of a temporary could be stored and used too late

   private:
    Queue& queue_;
  };
  Handle handle() { return Handle(*this); }
  int ordinal() const { return ordinal_; }
  /// Returns a mark at the current end of the queue. Repeated calls return the same mark while no Handle exists and
  /// nothing is appended.
  std::shared_ptr<const DeviceMark> record();
  /// Like record(), but the mark also records the time at which the queue passed it.
  std::shared_ptr<const DeviceMark> record_timed();
  /// Makes this queue wait for a mark of another queue; a mark of this queue needs no wait. For any other event, blocks
  /// the host.
  void wait(const Event& event);
  void wait(const DeviceMark& mark);
  /// Blocks the host until the queue is empty.
  void synchronize() const;

 private:
  class Mark;
  class Clock;
  /// Pool of unused events of one kind: creating an event costs several times as much as recording it.
  using Unused = std::vector<cudaEvent_t>;
  std::shared_ptr<const Mark> record_locked(Unused& unused, unsigned flags, std::shared_ptr<const Clock> clock);

  int ordinal_;
  cudaStream_t handle_ = nullptr;
  std::mutex mutex_;  // guards the members below
  Unused plain_, timed_;
  std::shared_ptr<const Clock> clock_;
  std::weak_ptr<const Mark> end_;  // the last plain mark; empty if work may have been appended after it
  int handles_ = 0;                // number of handles that exist
};

}  // namespace hexad::device::cuda
