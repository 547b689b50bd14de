// A point in the order of a stream that others can wait for.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace hexad::device {

/// A point in a device's own queue, passed when the device reaches it. No host thread is notified.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  virtual bool passed() const = 0;
  virtual void wait() const = 0;  // blocks the host
  /// Time at which it was passed, in seconds of std::chrono::steady_clock. Only for marks of Stream::record_timed().
  virtual double passed_at() const = 0;
};

/// Shared handle. A default-constructed event has already happened. It owns what is in flight (`keep`): nothing that an
/// asynchronous operation reads or writes is freed before the operation is done.
///
/// A host event (a transfer, a rendezvous of threads, a file) is completed by a host thread; a device event is a mark
/// in a device's queue, on which another queue of that device can wait without the host. What a host thread ends by
/// launching work of a device (a transfer through host memory, whose last step is a copy) is both, one after the other.
class Event {
 public:
  /// The two sides of an event, for those who complete it (streams, the communication engine).
  class State;

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Event at(std::shared_ptr<const DeviceMark> mark);
  static std::shared_ptr<State> make_state();

  bool done() const;
  /// Blocks the calling thread. Rethrows what made the operation fail.
  void wait() const;
  /// Calls the hook of on_wait(), as though a thread began to wait.
  void expect() const;
  /// Holds `owner` until the host's part is done (a device event: as long as somebody holds the event).
  void keep(std::shared_ptr<const void> owner) const;
  /// Calls `f` once the event is done: at once if it is already, else on the thread that completes it. No thread
  /// completes a device's part: the thread that calls `f` waits for it first.
  void then(std::function<void()> f) const;
  /// Blocks the calling thread for the host's part, if there is one, and rethrows what made it fail. The device's part,
  /// on which its queues can wait; null if there is none.
  std::shared_ptr<const DeviceMark> launched() const;

 private:
  std::shared_ptr<State> state_;
};

/// Marks the host's part of the event done; `error` (may be null) is rethrown by wait(), `rest` (may be null) is what
/// a device still does.
void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error = nullptr,
              std::shared_ptr<const DeviceMark> rest = nullptr);
/// Completes `state` when `event` is completed, and tells `event` when a thread waits for `state`.
void follow(const std::shared_ptr<Event::State>& state, const Event& event);
/// Installs a hook that a waiting thread calls once before it blocks (the engine lifts the request's priority); called
/// at once when a thread waits already.
void on_wait(const std::shared_ptr<Event::State>& state, std::function<void()> hook);

}  // namespace hexad::device
