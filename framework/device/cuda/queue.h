// An in-order queue of work for the card.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/event.h"

namespace hexad::device::cuda {

/// Reference events of a card, to which the times of marks are relative. The queues of a context share these events.
/// The times of marks of different queues can therefore be compared, and the host waits only once for each reference.
/// Thread-safe.
class CardClock {
 public:
  explicit CardClock(int ordinal) : ordinal_(ordinal) {}
  /// Reference event. Its host time is measured at the first use.
  class Reference;
  /// Returns the newest reference. First records a new reference in `stream` if there is no reference, or if the newest
  /// is more than 16 s old. Does not wait.
  std::shared_ptr<const Reference> reference(cudaStream_t stream);

 private:
  const int ordinal_;
  std::mutex mutex_;
  std::shared_ptr<const Reference> newest_;
};

/// A CUDA stream that does not wait for the default stream, and the events recorded in this CUDA stream. Streams,
/// Blocks, allocators and marks share the ownership of a queue. Thread-safe, because any thread may free memory, and
/// freeing records a mark. The queue's card becomes current in a calling thread that has no current card.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  /// `priority` is a CUDA priority: the card prefers queues with lower numbers. The nearest supported priority is used
  /// if the card does not support `priority`. `clock` gives the times of marks; if null, the queue makes a clock. Makes
  /// the card current in the calling thread.
  Queue(int ordinal, int priority, std::shared_ptr<CardClock> clock = nullptr);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Permission to append launches, copies and collectives, valid during the lifetime of this object. The queue must
  /// outlive the Handle. If a Handle exists when record() makes a mark, the next record() makes a new mark, because the
  /// Handle may have appended work.
  class Handle {
   public:
    explicit Handle(Queue& queue);
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    /// Returns the CUDA stream, which may be used only during the lifetime of this object.
    cudaStream_t get() const& { return queue_.handle_; }
    /// Deleted, because the stream of a temporary Handle could be used after the Handle is destroyed.
    cudaStream_t get() const&& = delete;

   private:
    Queue& queue_;
  };
  Handle handle() { return Handle(*this); }
  int ordinal() const { return ordinal_; }
  /// Returns a mark at the current end of the queue. Reuses the mark of the previous call of record() or record_timed()
  /// if this mark still exists and no Handle has existed from that call on. Otherwise, makes a new mark.
  std::shared_ptr<const DeviceMark> record();
  /// Returns a new mark that also records the time at which the queue passes it. Does not wait. The first passed_at()
  /// with a new reference of the clock blocks the host until the work issued so far in the queue is done.
  std::shared_ptr<const DeviceMark> record_timed();
  /// Makes later work of this queue wait for `event`. Blocks the host until the host's part of the event, if any, is
  /// done. A mark of another CUDA queue does not block the host, and a mark of this queue has no effect. A mark of
  /// another kind of device blocks the host until the mark is passed.
  void wait(const Event& event);
  void wait(const DeviceMark& mark);
  /// Blocks the host until all work issued so far in this queue is done.
  void synchronize() const;

 private:
  class Mark;
  /// Pool of unused events of one kind. Events are reused, because creating an event costs several times as much as
  /// recording an event.
  using Unused = std::vector<cudaEvent_t>;
  std::shared_ptr<const Mark> record_locked(Unused& unused, unsigned flags,
                                            std::shared_ptr<const CardClock::Reference> reference);

  int ordinal_;
  const std::shared_ptr<CardClock> clock_;
  cudaStream_t handle_ = nullptr;
  std::mutex mutex_;  // guards the members below
  Unused plain_, timed_;
  std::weak_ptr<const Mark> end_;  // last mark; empty if work may have been appended after it
  int handles_ = 0;                // number of existing handles
};

}  // namespace hexad::device::cuda
