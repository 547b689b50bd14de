// The peak that MFU is a share of.
#pragma once

#include "framework/device/context.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// The FLOP/s of all ranks at full speed: train.peak_flops, else measured with products of the recipe's precision. A
/// busy machine is slow for moments, so each rank takes several samples and its best one counts: at the start and, on a
/// CPU, spread over the run. All ranks take theirs at the same time, as they compute.
class PeakMeter {
 public:
  /// Collective. Takes the first samples: a fraction of a second, two seconds at most.
  PeakMeter(const Recipe& recipe, const comm::ProcessGroup& world);

  double peak_of_all_ranks() const { return peak_; }
  /// Collective, between steps. Takes another sample when that costs little beside the steps since the last one, sooner
  /// if a step was faster than the peak. `seconds` and `flops` of the step, of all ranks, are equal on all ranks.
  void after_step(double seconds, double flops);

 private:
  /// Returns the seconds that it took.
  double sample();
  /// Adds up the ranks' best samples. Plans the next one, after one that took `cost` seconds on this rank.
  void agree(double cost);

  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  device::DeviceContext host_;                   // of what ranks tell each other
  double best_ = 0, peak_ = 0;                   // of this rank, of all
  int64_t size_ = 0;                             // of the products of the best sample
  double trained_ = 0, next_ = 0, soonest_ = 0;  // seconds of steps; when to sample again
};

}  // namespace hexad::train
