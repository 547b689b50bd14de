// A point in the order of a stream that other streams and threads can wait for.
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
  /// Returns the time at which the device passed the mark, in seconds of std::chrono::steady_clock. Only for marks of
  /// Stream::record_timed().
  virtual double passed_at() const = 0;
};

/// Shared handle of an event. A default-constructed event is already done.
///
/// An event owns the memory that the host's part of its operation reads or writes (`keep`), until this part is done. It
/// owns no memory for the device's part: an allocator of a device reuses freed memory in the order of issue, after all
/// work that was issued before.
///
/// A host event (a transfer, a rendezvous of threads, a file) is completed by a host thread. A device event is a mark
/// in a device's queue; another queue of that device can wait for it without the host. An event can be both, in this
/// order, if a host thread ends its operation by launching device work. An example is a transfer through host memory,
/// whose last step is a copy.
class Event {
 public:
  /// State of an event, for code that completes events (streams, the communication engine).
  class State;

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Event at(std::shared_ptr<const DeviceMark> mark);
  static std::shared_ptr<State> make_state();

  bool done() const;
  /// Blocks the calling thread until the event is done. Rethrows the error of the operation.
  void wait() const;
  /// Calls the hook of on_wait(), as if a thread began to wait.
  void expect() const;
  /// Holds `owner` until the host's part is done. Holds nothing for an event without a host's part.
  void keep(std::shared_ptr<const void> owner) const;
  /// Calls `f` once the event is done: immediately if it already is, otherwise on the completing thread. No thread
  /// completes a device's part. Therefore the thread that will call `f` waits for the device's part before it calls
  /// `f`.
  void then(std::function<void()> f) const;
  /// Blocks the calling thread until the host's part, if any, is done, and rethrows its error. Returns the device's
  /// part, for which the device's queues can wait; null if there is none.
  std::shared_ptr<const DeviceMark> launched() const;

 private:
  std::shared_ptr<State> state_;
};

/// Marks the host's part of the event as done. wait() rethrows `error` (may be null). `rest` (may be null) is the
/// device's part.
void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error = nullptr,
              std::shared_ptr<const DeviceMark> rest = nullptr);
/// Completes `state` when `event` is completed, and notifies `event` when a thread waits for `state`.
void follow(const std::shared_ptr<Event::State>& state, const Event& event);
/// Installs a hook that a waiting thread calls once before it blocks; the engine uses it to raise the request's
/// priority. Called immediately if a thread is already waiting.
void on_wait(const std::shared_ptr<Event::State>& state, std::function<void()> hook);

}  // namespace hexad::device
