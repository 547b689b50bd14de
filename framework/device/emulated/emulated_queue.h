// A queue of the emulated device: a thread that runs launched work in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "framework/base/philox.h"
#include "framework/device/stream.h"

namespace hexad::device::emulated {

class Heap;

/// A queue of launched work, owned by shared_ptr. Any thread may launch. If work fails, each later launch, and each
/// wait for a later mark, throws its error.
class Queue {
 public:
  /// Starts the thread of the queue. About a quarter of the launched operations start after a random delay below 300
  /// microseconds if `jitter_seed` is set.
  Queue(const std::string& name, std::optional<uint64_t> jitter_seed);
  /// Runs the remaining work before it returns. Must not be called on the queue's own thread.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  const std::string& name() const { return name_; }
  /// Appends work and returns without waiting. All objects to which `work` refers must live until the queue has run it.
  /// The device memory that `work` uses must be announced with Heap::touch(). Throws the error of earlier work that
  /// failed.
  void launch(std::function<void()> work);
  /// Returns a mark at the current end of the queue.
  std::shared_ptr<const DeviceMark> record();
  /// Makes this queue wait for an event's mark in another emulated queue. Blocks the caller until the host's part of
  /// the event, if any, is done. Blocks the caller until the event is done if the event has no mark in an emulated
  /// queue.
  void wait(const Event& event);

 private:
  class Mark;

  struct Work {
    std::function<void()> run;
    /// Number of the launch; it determines the random delay. Empty for marks and waits, which are not delayed.
    std::optional<uint64_t> launch;
  };
  void push(std::function<void()> work, bool launch = false);
  void loop();
  void delay(uint64_t launch) const;

  const std::string name_;
  const std::optional<base::Philox> jitter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool stopping_ = false, running_ = false;
  std::exception_ptr error_;  // error of the first work that failed; guarded by the mutex
  uint64_t launched_ = 0;
  std::thread thread_;
};

class EmulatedStream final : public Stream {
 public:
  EmulatedStream(std::shared_ptr<Heap> heap, std::shared_ptr<Queue> queue)
      : heap_(std::move(heap)), queue_(std::move(queue)) {}

  void run(std::function<void()> work) override;  // throws std::logic_error, because the queue runs no host work
  void wait(const Event& event) override { queue_->wait(event); }
  Event record() override { return Event::at(queue_->record()); }
  bool on_device() const override { return true; }

  /// Appends `work` to the queue. `blocks` contains an address in each block of the heap that the work uses. Null
  /// addresses and addresses outside the heap are ignored.
  void launch(std::span<void* const> blocks, std::function<void()> work);
  const Heap& heap() const { return *heap_; }

 private:
  std::shared_ptr<Heap> heap_;
  std::shared_ptr<Queue> queue_;
};

/// Casts to an emulated stream. Throws std::logic_error for a stream of another device.
EmulatedStream& emulated_stream(Stream& stream);

}  // namespace hexad::device::emulated
