// Queues that run work in order.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/device/event.h"

namespace hexad::device {

/// Runs work in the order in which it was appended. On the CPU, the compute stream is inline: it runs work immediately
/// on the calling thread. The other lanes are also inline, or each has its own thread. On a meta device, all lanes run
/// work immediately. On other devices, a lane is a queue of the device. Kernels are launched into the queue, and the
/// host does not wait for them.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Appends host work. If the work throws, later work is skipped. A wait for an event that is recorded later rethrows
  /// the exception. An inline stream throws the exception directly. The queue of a device does not accept host work and
  /// throws std::logic_error.
  virtual void run(std::function<void()> work) = 0;
  /// Delays all work that is appended after this call until `event` is done. The queue of a device waits for a mark of
  /// the same device without blocking the caller; the host's part of an event blocks the caller.
  virtual void wait(const Event& event) = 0;
  /// Returns an event that is done when all work appended so far is done.
  virtual Event record() = 0;
  /// Like record(). On the queue of a device, the event also records the time at which the device passed it.
  virtual Event record_timed() { return record(); }
  /// True if run() returns only after the work is done. Exception: false for the stream of a meta device that imitates
  /// a stream with a thread, although its run() does the work immediately.
  virtual bool runs_at_once() const { return false; }
  /// True if the stream has a thread, which may start operations after the call that appends them has returned.
  virtual bool starts_late() const { return false; }
  /// True if this stream is a queue of a device.
  virtual bool on_device() const { return false; }
  /// Blocks the caller until all work appended so far is done.
  void synchronize() { record().wait(); }
};

/// A stream that runs work immediately. wait() blocks the caller.
class InlineStream final : public Stream {
 public:
  void run(std::function<void()> work) override { work(); }
  void wait(const Event& event) override { event.wait(); }
  Event record() override { return {}; }
  bool runs_at_once() const override { return true; }
};

/// Makes a stream whose own thread runs work in order. The thread sleeps while there is no work.
std::unique_ptr<Stream> make_worker_stream(const std::string& thread_name);

}  // namespace hexad::device
