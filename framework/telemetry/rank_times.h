// Working and waiting times of a job's ranks in a step, as a few numbers for any number of ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hexad::telemetry {

/// Times of one rank in one step, in seconds. The time not spent waiting is the rank's own work: computation, data,
/// files.
struct RankTime {
  double step_seconds = 0;
  double waited_seconds = 0;  // time blocked in communication
  double own_seconds() const { return step_seconds > waited_seconds ? step_seconds - waited_seconds : 0; }
};

/// Distribution of a time over the ranks.
struct Spread {
  double least = 0, median = 0, most = 0;
  bool operator==(const Spread&) const = default;
};

struct RankTimes {
  Spread step_seconds, waited_seconds, own_seconds;
  struct Rank {
    int rank = 0;
    double own_seconds = 0, waited_seconds = 0;
    bool operator==(const Rank&) const = default;
  };
  std::vector<Rank> slowest;  // by own time, the slowest first; at most eight
  bool operator==(const RankTimes&) const = default;
};

/// Returns the median. For an even number of values it is the smaller of the middle two, so that one of two ranks can
/// be slow.
double lower_median(std::vector<double> values);

/// Summarizes the times of ranks 0, 1, ...
RankTimes rank_times(std::span<const RankTime> ranks);

/// Finds ranks whose own work is slow. Compares two medians over a window of steps: that of the rank's own work, and
/// that of the ranks that do the same work. A slow rank is more than 1.2 times, and more than two milliseconds, above
/// the second median.
class SlowRanks {
 public:
  static constexpr int window = 16;  // steps
  static constexpr double limit = 1.2, least_excess_seconds = 2e-3;

  /// `kind_of_rank` gives a number for each rank. Ranks with equal numbers do the same work (a pipeline stage).
  explicit SlowRanks(std::vector<int> kind_of_rank);

  struct Slow {
    int rank;
    double own_seconds, median_seconds;  // medians of the rank and of the ranks of its kind
  };
  /// Adds the times of all ranks in the next step. At the end of a window, returns the slow ranks, slowest first.
  /// A rank that stays slow is returned again after 1, 2, 4, ... more windows.
  std::vector<Slow> add(std::span<const RankTime> ranks);

 private:
  struct Named {
    int windows_left = 0, pause = 1;
  };
  std::vector<Slow> look();

  std::vector<int> kinds_;
  std::vector<std::vector<double>> own_;  // times of each rank in the steps of the window
  std::vector<Named> named_;
};

}  // namespace hexad::telemetry
