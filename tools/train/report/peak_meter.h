// Measures the peak FLOP/s, relative to which MFU (model FLOPs utilization) is computed.
#pragma once

#include "framework/device/context.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Determines the FLOP/s of all ranks at full speed. Uses train.peak_flops for each rank if it is set. Otherwise,
/// measures the speed of matrix products in the recipe's precision. Other processes can slow down a sample, so each
/// rank takes several samples and uses the fastest. Samples are taken at the start and, on a CPU, throughout the run.
/// All ranks sample at the same time, because they also compute at the same time.
class PeakMeter {
 public:
  /// Takes the first samples if train.peak_flops is not set. These samples take up to two seconds. Collective.
  PeakMeter(const Recipe& recipe, const comm::ProcessGroup& world);

  double peak_of_all_ranks() const { return peak_; }
  /// Takes another sample if a sample takes little time compared with the steps since the last sample. Does nothing on
  /// devices other than a CPU, or with train.peak_flops. If a step was faster than the peak, the next sample follows
  /// earlier. `seconds` and `flops` are the duration and the FLOPs of a step over all ranks, and must be equal on all
  /// ranks. Collective, between steps.
  void after_step(double seconds, double flops);

 private:
  /// Takes a sample and returns its duration in seconds.
  double sample();
  /// Sums up the ranks' best samples. Schedules the next sample. `cost` is the duration of the last sample on this
  /// rank, in seconds.
  void agree(double cost);

  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  device::DeviceContext host_;  // context for the values that ranks exchange
  double best_ = 0, peak_ = 0;  // FLOP/s of this rank's best sample, and the sum of best_ over all ranks
  int64_t size_ = 0;            // largest size of the products in a sample so far
  // trained_: seconds spent in steps so far. The next sample is due once trained_ reaches next_ or, after a step that
  // was faster than the peak, soonest_.
  double trained_ = 0, next_ = 0, soonest_ = 0;
};

}  // namespace hexad::train
