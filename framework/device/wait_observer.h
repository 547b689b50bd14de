// Observation of the periods in which a thread is blocked in waits for events.
#pragma once

namespace hexad::device {

/// Receives the begin and the end of each period in which a thread waits for the host's part of an event. Does not
/// receive waits for a device's part, because the device computes for the rank during these waits. The functions are
/// called on the blocked thread and must not throw or wait for events.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  virtual void blocked() = 0;
  virtual void resumed() = 0;
};

/// Makes an observer receive the waits of the calling thread during the lifetime of this object. The object must be
/// destroyed on the same thread. Objects of one thread may be nested; the innermost object applies.
class ObservedThread {
 public:
  /// `observer` must outlive this object.
  explicit ObservedThread(WaitObserver& observer);
  ~ObservedThread();
  ObservedThread(const ObservedThread&) = delete;
  ObservedThread& operator=(const ObservedThread&) = delete;

 private:
  WaitObserver* const around_;
};

/// Tells the observer of the calling thread, if there is one, that the thread is blocked during the lifetime of this
/// object.
class BlockedThread {
 public:
  BlockedThread();
  ~BlockedThread();
  BlockedThread(const BlockedThread&) = delete;
  BlockedThread& operator=(const BlockedThread&) = delete;

 private:
  WaitObserver* const observer_;
};

}  // namespace hexad::device
