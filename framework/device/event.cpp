#include "framework/device/event.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

namespace hexad::device {

class Event::State {
 public:
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, expected = false;
  std::exception_ptr error;
  std::function<void()> wait_hook;
  std::vector<std::shared_ptr<const void>> owned;
  std::vector<std::function<void()>> continuations;
  std::shared_ptr<const DeviceMark> mark;  // set before the event is handed out; null: a host event
};

std::shared_ptr<Event::State> Event::make_state() { return std::make_shared<State>(); }

Event Event::at(std::shared_ptr<const DeviceMark> mark) {
  auto state = make_state();
  state->mark = std::move(mark);
  return Event(std::move(state));
}

std::shared_ptr<const DeviceMark> Event::mark() const { return state_ ? state_->mark : nullptr; }

bool Event::done() const {
  if (!state_) return true;
  if (state_->mark) return state_->mark->passed();
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Event::wait() const {
  if (!state_) return;
  if (state_->mark) return state_->mark->wait();
  expect();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

void Event::expect() const {
  if (!state_ || state_->mark) return;
  std::unique_lock lock(state_->mutex);
  if (state_->done) return;
  state_->expected = true;
  const auto hook = std::exchange(state_->wait_hook, nullptr);
  lock.unlock();
  if (hook) hook();
}

void Event::keep(std::shared_ptr<const void> owner) const {
  if (!state_) return;
  std::lock_guard lock(state_->mutex);
  if (!state_->done) state_->owned.push_back(std::move(owner));
}

void Event::then(std::function<void()> f) const {
  if (state_ && state_->mark) {
    state_->mark->wait();
  } else if (state_) {
    std::lock_guard lock(state_->mutex);
    if (!state_->done) {
      state_->continuations.push_back(std::move(f));
      return;
    }
  }
  f();
}

void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error) {
  std::vector<std::shared_ptr<const void>> owned;  // destroyed outside the lock: may free tensors
  std::vector<std::function<void()>> continuations;
  {
    std::lock_guard lock(state->mutex);
    state->done = true;
    state->error = std::move(error);
    owned.swap(state->owned);
    continuations.swap(state->continuations);
    state->wait_hook = nullptr;
  }
  state->changed.notify_all();
  for (auto& f : continuations) f();
}

void on_wait(const std::shared_ptr<Event::State>& state, std::function<void()> hook) {
  {
    std::lock_guard lock(state->mutex);
    if (state->done) return;
    if (!state->expected) {
      state->wait_hook = std::move(hook);
      return;
    }
  }
  hook();
}

void follow(const std::shared_ptr<Event::State>& state, const Event& event) {
  on_wait(state, [event] { event.expect(); });
  event.then([state, event] {
    try {
      event.wait();  // it is done: only its error is of interest
      complete(state);
    } catch (...) {
      complete(state, std::current_exception());
    }
  });
}

}  // namespace hexad::device
