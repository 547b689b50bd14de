// Working and waiting times of a job's ranks in a step. A few numbers summarise the times of any number of ranks.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hexad::telemetry {

/// Times of one rank in one step, in seconds. The rank's own work is everything that it does while it does not wait in
/// communication: computation, data, files.
struct RankTime {
  double step_seconds = 0;
  double waited_seconds = 0;  // seconds for which the rank was blocked in communication
  double own_seconds() const { return step_seconds > waited_seconds ? step_seconds - waited_seconds : 0; }
};

/// Distribution of a time over the ranks, in seconds.
struct Spread {
  double least = 0, median = 0, most = 0;
  bool operator==(const Spread&) const = default;
};

struct RankTimes {
  static constexpr size_t listed = 8;  // maximum length of `slowest`
  Spread step_seconds, waited_seconds, own_seconds;
  struct Rank {
    int rank = 0;
    double own_seconds = 0, waited_seconds = 0;
    bool operator==(const Rank&) const = default;
  };
  std::vector<Rank> slowest;  // sorted by own_seconds, largest first
  bool operator==(const RankTimes&) const = default;
};

/// Summarises the times of ranks 0, 1, ... Lists the slowest ranks, at most RankTimes::listed.
RankTimes rank_times(std::span<const RankTime> ranks);

/// Finds ranks whose own work is slow. A rank's median is the median of its own work over a window of steps. A kind's
/// median is the median of the medians of its ranks. A rank is slow if its median is more than 1.2 times the median of
/// its kind, and at least two milliseconds longer.
class SlowRanks {
 public:
  static constexpr int window = 16;  // length of a window in steps
  static constexpr double limit = 1.2, least_excess_seconds = 2e-3;

  /// `kind_of_rank` contains the kind of each rank. Only ranks of the same kind are compared, for example the ranks of
  /// a pipeline stage, which do the same work.
  explicit SlowRanks(std::vector<int> kind_of_rank);

  struct Slow {
    int rank;
    double own_seconds, median_seconds;  // median own work of this rank, and of all ranks of its kind
  };
  /// Adds the times of all ranks in the next step. At the end of a window, returns the slow ranks, slowest first. A
  /// rank that remains slow is omitted for one window after it was first returned, then for 2 windows, 4 windows, ...
  /// Takes time linear in the number of ranks.
  std::vector<Slow> add(std::span<const RankTime> ranks);

 private:
  struct Named {
    int windows_left = 0, pause = 1;
  };
  std::vector<Slow> look();

  std::vector<int> kinds_;
  std::vector<std::array<double, window>> own_;  // times of each rank in the steps of the current window
  int steps_ = 0;                                // number of steps in the current window so far
  std::vector<Named> named_;
};

}  // namespace hexad::telemetry
