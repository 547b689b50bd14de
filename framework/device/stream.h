// In-order queues of work.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/device/event.h"

namespace hexad::device {

/// Runs work in the order in which it was appended. On the CPU, an inline stream (the compute stream) runs work
/// immediately on the calling thread. The other lanes can, on request, have threads that run their work. The streams of
/// other devices are queues of the device: kernels are launched into them, and the host runs ahead.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Appends host work. An exception of the work is rethrown by the next wait for an event of this stream; an inline
  /// stream throws it directly. A device's queue does not accept host work and throws std::logic_error.
  virtual void run(std::function<void()> work) = 0;
  /// Delays work that is appended after this call until `event` is done. A device's queue waits for events of its
  /// device without blocking the caller; for a host event the caller blocks.
  virtual void wait(const Event& event) = 0;
  /// Returns an event that is done when all work appended so far is done.
  virtual Event record() = 0;
  /// Like record(); on a device's queue, the mark also records the time at which the device passed it.
  virtual Event record_timed() { return record(); }
  /// True if work is done when run() returns.
  virtual bool runs_at_once() const { return false; }
  /// True if this is a device's queue.
  virtual bool on_device() const { return false; }
  /// Blocks the caller until the stream is empty.
  void synchronize() { record().wait(); }
};

/// A stream that runs work immediately. Its wait() blocks the caller.
class InlineStream final : public Stream {
 public:
  void run(std::function<void()> work) override { work(); }
  void wait(const Event& event) override { event.wait(); }
  Event record() override { return {}; }
  bool runs_at_once() const override { return true; }
};

/// Makes a stream with one thread that runs work in order. The thread sleeps while there is no work, so that it does
/// not slow down other threads.
std::unique_ptr<Stream> make_worker_stream(const std::string& thread_name);

}  // namespace hexad::device
