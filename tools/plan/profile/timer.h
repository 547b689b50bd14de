// Timing of work that all ranks run at the same time.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "framework/base/clock.h"
#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

using base::now;

/// Rounds to four significant digits, the precision of a measurement.
double rounded(double value);

/// Least seconds of a timed batch of kernels. A batch lasts several time slices of the operating system, because ranks
/// may share a core.
inline constexpr double kernel_batch = 0.012;

/// Returns `points`, which are ascending in size, with corrected times. Measures a size again if it took longer than a
/// larger size, and keeps the smaller time. Then limits this time to largest_fall times the least time of the larger
/// sizes, because load_cluster() rejects files with larger ratios. `again`(i) measures point i and returns its seconds.
std::vector<Curve::Point> without_falls(std::vector<Curve::Point> points, const std::function<double(size_t)>& again);

/// Timer of work on all ranks. All functions except device() and world() are collective over the world, and return the
/// same value on all ranks.
class Timer {
 public:
  Timer(const comm::ProcessGroup& world, device::Device device) : world_(world), device_(device) {}

  /// Timed work, and the size with which its seconds are recorded. One repeat runs the work for at least
  /// `batch_seconds`. A shorter repeat would end within one time slice, and seem too fast, if ranks share a core.
  struct Work {
    double size;
    std::function<void()> run;
    double batch_seconds = 0;
  };
  /// Returns the largest of the ranks' medians. Makes as many repeats as fit in about `seconds`, but at least 3 and at
  /// most 21 (9 if `batch_seconds` is set). One warm-up run precedes the repeats (two if `batch_seconds` is set).
  double median(const Work& work, double seconds) const;
  /// Measures a point for every size in about `seconds` in total. If the time is too short, measures the smallest size,
  /// the largest size for which there is time, and as many sizes between them as possible. Measures at least two sizes.
  /// Then repeats the measurement of each size that is slower per unit than the next smaller size, and keeps the
  /// smaller time. Corrects times that exceed the times of larger sizes (without_falls()). `sizes` has at least two
  /// sizes, ascending. `prepare` may round the sizes. Omits a size that `prepare` rounds to a measured size.
  Curve curve(std::span<const int64_t> sizes, double seconds, const std::function<Work(int64_t)>& prepare) const;

  void wait_for_ranks() const { world_.barrier(device_.context().compute()).wait(); }
  double largest(double value) const { return world_.all_reduce_value(value, comm::Reduce::max, device_); }
  double mean(double value) const { return world_.all_reduce_value(value, comm::Reduce::sum, device_) / world_.size(); }
  device::Device device() const { return device_; }
  const comm::ProcessGroup& world() const { return world_; }

 private:
  const comm::ProcessGroup& world_;
  device::Device device_;
};

/// Time shared by several measurements. A measurement can also use the time that earlier measurements left unused.
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
