// A point in the order of a stream that others can wait for.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace hexad::device {

/// Shared handle. A default-constructed event has already happened. It owns what is in flight (`keep`): nothing that an
/// asynchronous operation reads or writes is freed before the operation is done.
class Event {
 public:
  /// The two sides of an event, for those who complete it (streams, the communication engine).
  class State;

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static std::shared_ptr<State> make_state();

  bool done() const;
  /// Blocks the calling thread. Rethrows what made the operation fail.
  void wait() const;
  /// As though a thread began to wait: calls the hook of on_wait().
  void expect() const;
  /// Holds `owner` until the event is done.
  void keep(std::shared_ptr<const void> owner) const;
  /// Calls `f` once the event is done: at once if it is already, else on the thread that completes it.
  void then(std::function<void()> f) const;

 private:
  std::shared_ptr<State> state_;
};

/// Marks the event done; `error` (may be null) is rethrown by wait().
void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error = nullptr);
/// Completes `state` as `event` is completed, and passes on that somebody waits.
void follow(const std::shared_ptr<Event::State>& state, const Event& event);
/// Installs a hook that a waiting thread calls once before it blocks (the engine lifts the request's priority); called
/// at once when a thread waits already.
void on_wait(const std::shared_ptr<Event::State>& state, std::function<void()> hook);

}  // namespace hexad::device
