// Time at which a rank's host issues operations to its device. A device waits for its host if operations are short.
#pragma once

#include <array>
#include <vector>

#include "tools/plan/step_record.h"

namespace hexad::plan {

/// Clock of a host that issues the operations of a record one after the other. The host waits for the device only where
/// the record shows a wait. Assumes that kernels, copies and communication do not slow each other. Assumes that
/// communication waits neither for other ranks nor for earlier communication.
class HostClock {
 public:
  /// Makes a clock at the start of the step. `issuing` is the host's time for an operation, in seconds. `record` must
  /// outlive the object.
  HostClock(const StepRecord& record, double issuing) : record_(record), issuing_(issuing) {
    ends_.reserve(record.issues.size());
  }

  /// Returns the seconds for which the next operation of the record waits only for the host. When this wait begins, all
  /// operations on which the next operation depends have ended. `seconds` is the duration of the next operation. Must
  /// be called once for each operation, in the order of the record.
  double delay(double seconds);

 private:
  const StepRecord& record_;
  const double issuing_;
  double now_ = 0;                                     // time at which the host has issued the latest operation
  std::array<double, device::lane_count> lane_end_{};  // end of the latest kernel or copy of each lane
  std::vector<double> ends_;                           // ends of the operations so far
};

}  // namespace hexad::plan
