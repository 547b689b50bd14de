// In-order queues of work.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/device/event.h"

namespace hexad::device {

/// Work of one stream runs in the order it was given. On the CPU a stream either runs its work at once on the calling
/// thread (inline: the compute stream) or hands it to a thread of its own (the other lanes, on request). The streams of
/// other devices are queues of that device: kernels are launched into them, and the host runs ahead.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Appends host work. An exception it throws reaches the next wait for one of this stream's events, or is thrown at
  /// once by an inline stream. A device's queue takes none: std::logic_error.
  virtual void run(std::function<void()> work) = 0;
  /// Work appended after this call starts only once `event` is done. A device's queue waits for its device's events by
  /// itself; for a host event the caller blocks.
  virtual void wait(const Event& event) = 0;
  /// Done when everything appended so far is.
  virtual Event record() = 0;
  /// record() whose mark, on a device's queue, will also know when it was passed.
  virtual Event record_timed() { return record(); }
  /// True if work has run when run() returns.
  virtual bool runs_at_once() const { return false; }
  /// True if this is a device's queue.
  virtual bool on_device() const { return false; }
  /// Blocks the caller until the stream is empty.
  void synchronize() { record().wait(); }
};

/// Runs work at once; `wait` blocks the caller.
class InlineStream final : public Stream {
 public:
  void run(std::function<void()> work) override { work(); }
  void wait(const Event& event) override { event.wait(); }
  Event record() override { return {}; }
  bool runs_at_once() const override { return true; }
};

/// One thread that runs the work in order. Blocked while there is none, so that it costs other threads nothing.
std::unique_ptr<Stream> make_worker_stream(const std::string& thread_name);

}  // namespace hexad::device
