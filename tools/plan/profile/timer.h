// Timing of what all ranks do at once.
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "framework/base/clock.h"
#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

using base::now;

/// Four significant digits: all that a measurement is worth.
double rounded(double value);

/// Every function is collective over the world and returns the same on all ranks, so that all of them go on alike.
class Timer {
 public:
  Timer(const comm::ProcessGroup& world, tensor::Device device) : world_(world), device_(device) {}

  /// Timed work, and the size that its seconds are noted under. One repeat runs it for at least `batch_seconds`: if
  /// ranks share a core, a short run mostly ends before its turn does, and would seem to have the core for itself.
  struct Work {
    double size;
    std::function<void()> run;
    double batch_seconds = 0;
  };
  /// The largest of the ranks' medians. After a run that does not count, as many as about `seconds` take: at least 3,
  /// at most 21, or 9 batches.
  double median(const Work& work, double seconds) const;
  /// A point for every size, as long as all of them take about `seconds`: later sizes are left out then, but not the
  /// first two. Two sizes or more, ascending; `prepare` may round them.
  Curve curve(std::span<const int64_t> sizes, double seconds, const std::function<Work(int64_t)>& prepare) const;

  void meet() const { world_.barrier(device_.context().compute()).wait(); }
  double largest(double value) const { return world_.all_reduce_value(value, comm::Reduce::max, device_); }
  double mean(double value) const { return world_.all_reduce_value(value, comm::Reduce::sum, device_) / world_.size(); }
  tensor::Device device() const { return device_; }
  const comm::ProcessGroup& world() const { return world_; }

 private:
  const comm::ProcessGroup& world_;
  tensor::Device device_;
};

/// Time shared by several measurements: a measurement may use what earlier ones have left.
class Budget {
 public:
  Budget(const Timer& timer, double seconds) : timer_(timer), seconds_(seconds), begin_(now()) {}
  /// Returns the remaining seconds, the same on all ranks. Collective.
  double left() const { return std::max(0.0, seconds_ - timer_.largest(now() - begin_)); }

 private:
  const Timer& timer_;
  double seconds_, begin_;
};

}  // namespace hexad::plan
