// Measurement of the peak FLOP/s, relative to which MFU is computed.
#pragma once

#include "framework/device/context.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Determines the FLOP/s of all ranks at full speed: train.peak_flops if it is set, otherwise the measured speed of
/// products in the recipe's precision. A busy machine is slow for moments, so each rank takes several samples, of which
/// the best counts. Samples are taken at the start and, on a CPU, throughout the run. All ranks sample at the same
/// time, because they also compute at the same time.
class PeakMeter {
 public:
  /// Takes the first samples, which last up to two seconds. Collective.
  PeakMeter(const Recipe& recipe, const comm::ProcessGroup& world);

  double peak_of_all_ranks() const { return peak_; }
  /// Takes another sample if its cost is small compared with the steps since the last sample, or earlier if a step was
  /// faster than the peak. `seconds` and `flops` are those of a step, over all ranks, and must be equal on all ranks.
  /// Collective, between steps.
  void after_step(double seconds, double flops);

 private:
  /// Takes a sample and returns its duration in seconds.
  double sample();
  /// Sums up the ranks' best samples. Plans the next sample, given that the last one took `cost` seconds on this rank.
  void agree(double cost);

  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  device::DeviceContext host_;                   // for the values that ranks exchange
  double best_ = 0, peak_ = 0;                   // FLOP/s: best sample of this rank; sum over all ranks
  int64_t size_ = 0;                             // size of the products in the best sample
  double trained_ = 0, next_ = 0, soonest_ = 0;  // seconds of steps so far, at the next sample, and at its earliest
};

}  // namespace hexad::train
