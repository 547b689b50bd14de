// Times of a layer's forward and backward passes, including the work before and after the graphs of the passes.
#pragma once

#include <memory>

#include "framework/device/stream.h"
#include "framework/schedule/executor.h"
#include "framework/schedule/pass_name.h"

namespace hexad::schedule {

/// Running timer of a part of a layer.
class PartTimer {
 public:
  virtual ~PartTimer() = default;
  /// Marks the end of the work that has been appended to `stream` so far.
  virtual void stop(device::Stream& stream) = 0;
};

/// Start and end of work on a stream. The host does not wait for the work until read() is called. A device records
/// timed marks.
class StreamTimer final : public PartTimer {
 public:
  /// Marks the start of the work, which is the end of all work that was appended to `stream` before.
  explicit StreamTimer(device::Stream& stream);
  void stop(device::Stream& stream) override;
  /// Returns the start and the end. Blocks until the work is done. Requires that stop() was called.
  TaskTime read() const;

 private:
  struct Mark {
    device::Event passed;
    double time = 0;  // set by the stream; unused on a device, whose mark has the time
    bool on_device = false;
  };
  static std::shared_ptr<const Mark> mark(device::Stream& stream);
  static double time_of(const Mark& mark);

  std::shared_ptr<const Mark> begin_, end_;
};

/// Interface of objects that time parts of a layer, such as its forward pass.
class LayerClock {
 public:
  virtual ~LayerClock() = default;
  /// Starts to time the part of a layer that runs `pass`, and returns the running timer; null if the time will not be
  /// read. Called on the rank's thread. The caller stops the timer if the part succeeds.
  virtual std::shared_ptr<PartTimer> start(const PassName& pass, device::Stream& stream) = 0;
};

}  // namespace hexad::schedule
