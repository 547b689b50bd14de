// Lane of a meta device.
#pragma once

#include "framework/device/lane.h"
#include "framework/device/stream.h"

namespace hexad::device {

class IssueLog;

/// Runs host work immediately. Records waits and marks of the lane in the run's log, if the run has a log.
class MetaStream final : public Stream {
 public:
  /// Makes a stream that records the waits and marks of `lane` in `log`, which may be null. `has_thread` is true if the
  /// lane imitates a lane with a separate thread. The issuing thread then need not wait for the lane's work.
  MetaStream(Lane lane, IssueLog* log, bool has_thread = false) : lane_(lane), log_(log), has_thread_(has_thread) {}
  void run(std::function<void()> work) override { work(); }
  void wait(const Event& event) override;
  Event record() override;
  bool runs_at_once() const override { return !has_thread_; }
  Lane lane() const { return lane_; }

 private:
  const Lane lane_;
  IssueLog* const log_;
  const bool has_thread_;
};

/// Returns the lane of a stream of a meta device; Lane::compute for the stream of another device.
Lane lane_of(const Stream& stream);

}  // namespace hexad::device
