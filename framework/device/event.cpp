#include "framework/device/event.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "framework/device/wait_observer.h"

namespace hexad::device {

class Event::State {
 public:
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;      // true if the host's part is done
  bool expected = false;  // true if a thread called expect(), wait() or launched() before the host's part was done
  std::exception_ptr error;
  std::function<void()> wait_hook;
  std::vector<std::shared_ptr<const void>> owned;
  std::vector<std::function<void()>> continuations;
  std::shared_ptr<const DeviceMark> mark;  // the device's part; valid when the host's part is done
};

std::shared_ptr<Event::State> Event::make_state() { return std::make_shared<State>(); }

Event Event::at(std::shared_ptr<const DeviceMark> mark) {
  auto state = make_state();
  state->done = true;
  state->mark = std::move(mark);
  return Event(std::move(state));
}

bool Event::done() const {
  if (!state_) return true;
  std::unique_lock lock(state_->mutex);
  if (!state_->done) return false;
  const auto mark = state_->mark;
  lock.unlock();
  return !mark || mark->passed();
}

namespace {

// Blocks the calling thread until the host's part is done. The observer of the thread is called without the lock.
void block_until_done(Event::State& state) {
  const BlockedThread blocked;
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.done; });
}

}  // namespace

std::shared_ptr<const DeviceMark> Event::launched() const {
  if (!state_) return nullptr;
  expect();
  std::unique_lock lock(state_->mutex);
  if (!state_->done) {
    lock.unlock();
    block_until_done(*state_);
    lock.lock();
  }
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->mark;
}

std::shared_ptr<const DeviceMark> Event::launched_already() const {
  if (!state_) return nullptr;
  std::lock_guard lock(state_->mutex);
  return state_->done && !state_->error ? state_->mark : nullptr;
}

void Event::wait() const {
  if (const auto mark = launched()) mark->wait();
}

void Event::expect() const {
  if (!state_) return;
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

namespace {

// Waits without throwing, because continuations read the error from the event itself.
void wait_quietly(const std::shared_ptr<const DeviceMark>& mark) {
  if (!mark) return;
  try {
    mark->wait();
  } catch (...) {
  }
}

}  // namespace

void Event::then(std::function<void()> f) const {
  if (state_) {
    std::unique_lock lock(state_->mutex);
    if (!state_->done) {
      state_->continuations.push_back(std::move(f));
      return;
    }
    const auto mark = state_->mark;
    lock.unlock();
    wait_quietly(mark);
  }
  f();
}

void complete(const std::shared_ptr<Event::State>& state, std::exception_ptr error,
              std::shared_ptr<const DeviceMark> rest) {
  std::vector<std::function<void()>> continuations;
  {
    std::unique_lock lock(state->mutex);
    // Frees the owned memory before any thread resumes, so that the resuming thread can reuse this memory. The
    // memory is freed outside the lock, because freeing takes the lock of an allocator. Meanwhile keep() may add
    // owners.
    while (!state->owned.empty()) {
      auto owned = std::exchange(state->owned, {});
      lock.unlock();
      owned.clear();
      lock.lock();
    }
    state->done = true;
    state->error = std::move(error);
    state->mark = rest;
    continuations.swap(state->continuations);
    state->wait_hook = nullptr;
  }
  state->changed.notify_all();
  if (!continuations.empty()) wait_quietly(rest);
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
    std::exception_ptr error;
    try {
      event.wait();  // does not block, because the event is done; rethrows its error
    } catch (...) {
      error = std::current_exception();
    }
    complete(state, error);
  });
}

}  // namespace hexad::device
