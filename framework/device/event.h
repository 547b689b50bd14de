// Events, with which streams and threads can wait for the end of an operation.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace hexad::device {

/// A point in a device's queue. The device passes it without notifying a host thread.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  virtual bool passed() const = 0;
  /// Blocks the calling thread until the mark is passed. Throws if work before the mark has failed.
  virtual void wait() const = 0;
  /// Returns the time at which the device passed the mark, in seconds of std::chrono::steady_clock. The mark must come
  /// from Stream::record_timed().
  virtual double passed_at() const = 0;
  /// True if passed_at() may be called: the mark comes from Stream::record_timed(), or the device times every mark.
  virtual bool timed() const { return true; }
};

/// Shared handle of an event. A default-constructed event is already done.
///
/// A host event (a transfer, a rendezvous of threads, file work) is completed by a host thread. A device event is a
/// mark in a device's queue. The other queues of that device can wait for the mark without the host. An event has two
/// parts if a host thread ends the operation by launching device work: first the host's part, then the device's part.
/// An example is a transfer through host memory, whose last step is a copy to the device.
///
/// Until the host's part is done, an event owns the memory that this part reads or writes (see keep()). It owns no
/// memory for the device's part, because the allocator of a device reuses freed memory in the order of issue.
class Event {
 public:
  /// State of an event. Only streams and the communication engine use it, because they complete events.
  class State;

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Event at(std::shared_ptr<const DeviceMark> mark);
  static std::shared_ptr<State> make_state();

  bool done() const;
  /// Blocks the calling thread until the event is done. Rethrows the error of the operation.
  void wait() const;
  /// Announces that a thread will wait, but does not wait. Calls the hook that on_wait() installed. If no hook is
  /// installed yet, on_wait() later calls its hook immediately. Does nothing if the host's part is done.
  void expect() const;
  /// Keeps `owner` alive until the host's part is done. Does nothing if that part is done, or if the event has no
  /// host's part.
  void keep(std::shared_ptr<const void> owner) const;
  /// Calls `f` once the event is done. If the host's part is done, the calling thread waits for the device's part, if
  /// any, and calls `f`. Otherwise, the thread that completes the host's part waits for the device's part and calls
  /// `f`.
  void then(std::function<void()> f) const;
  /// Blocks the calling thread until the host's part, if any, is done, and rethrows its error. Returns the mark of the
  /// device's part, for which the device's queues can wait; null if the event has no device's part.
  std::shared_ptr<const DeviceMark> launched() const;
  /// Returns launched() if the host's part is done and has not failed; otherwise null. Does not block.
  std::shared_ptr<const DeviceMark> launched_already() const;

 private:
  std::shared_ptr<State> state_;
};

/// Completes the host's part of the event. wait() rethrows `error` if it is not null. `rest` is the mark of the
/// device's part; null if the event has no device's part.
void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error = nullptr,
              std::shared_ptr<const DeviceMark> rest = nullptr);
/// Completes `state` when `event` is completed. The first wait for `state` calls event.expect().
void follow(const std::shared_ptr<Event::State>& state, const Event& event);
/// Installs a hook that is called once, at the first wait() or expect(). Calls the hook immediately if wait() or
/// expect() has already been called. Does nothing if the host's part is done. The communication engine uses the hook to
/// raise the priority of the awaited operation.
void on_wait(const std::shared_ptr<Event::State>& state, std::function<void()> hook);

}  // namespace hexad::device
