// MPMoE's Algorithm 1 (Zhang et al. 2024, section 4.1). It finds the best number of micro-batches of a batch by
// measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace hexad::plan {

/// Result of one step of a search.
struct Trial {
  int64_t n;
  bool settled;  // true: n is the answer; false: measure n and search again
};

/// Finds the n in [low, high] with the least f by ternary search. f must fall and then rise, or only fall, or only
/// rise. The search compares f at the two inner points of an interval's thirds, and drops the third beyond the larger
/// value. If `f` returns nothing for some n, that n is returned as unsettled and must be measured first. Of equal
/// values, the smaller n wins.
Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f);

/// Finds n for batches B of any size with few measurements. It uses two hypotheses of the paper: the best n does not
/// fall when B grows, and time over n falls and then rises. The search remembers ranges of B with the same n. A B
/// inside such a range needs no measurement. For another B, it searches between the n of the neighbouring ranges. Use
/// one object for each restore strategy and schedule.
///
/// The algorithm as printed is corrected. The smallest n is 1, as in the paper's text, unless `fewest` is larger. A B
/// inside a known range gets that range's n. Line 22 widens the range of n itself, not the range of a neighbour.
///
/// Either give `best` a function that measures, or drive the search step by step:
///
///   for (Trial t = search.propose(batch); !t.settled; t = search.propose(batch)) search.record(batch, t.n, run(t.n));
///
/// A trainer can therefore use its regular steps as measurements. The search is deterministic: ranks that record the
/// same times (for example the maximum over all ranks) make the same proposals.
class GranularitySearch {
 public:
  struct Range {
    int64_t smallest, largest;  // batches whose best number of micro-batches is n
    bool operator==(const Range&) const = default;
  };
  /// Results so far, as plain data that can be saved and restored.
  struct State {
    std::map<int64_t, Range> ranges;                        // ranges by n: the paper's G without its sentinels
    std::map<int64_t, int64_t> chosen;                      // chosen n by B: the paper's C
    std::map<std::pair<int64_t, int64_t>, double> seconds;  // shortest measured seconds by (B, n)
    bool operator==(const State&) const = default;
  };
  using Measure = std::function<double(int64_t batch, int64_t n)>;  // returns seconds

  /// Makes a search over n from `fewest` to `most`. Requires 1 <= fewest <= most.
  GranularitySearch(int64_t fewest, int64_t most, State state = {});

  /// Returns the n to use for `batch` (settled), or the n to measure next. Uses all recorded times, even of an n that
  /// was not proposed.
  Trial propose(int64_t batch);
  /// Settles `batch` without further measurements. Returns the fastest measured n, or `otherwise` if no n was measured.
  int64_t conclude(int64_t batch, int64_t otherwise);
  /// Records a time. Keeps the shortest time of each (batch, n).
  void record(int64_t batch, int64_t n, double seconds);
  /// Measures until the result is settled.
  int64_t best(int64_t batch, const Measure& measure);

  const State& state() const { return state_; }

 private:
  struct Bounds {
    int64_t low, high;
  };
  Bounds bounds(int64_t batch) const;
  void settle(int64_t batch, int64_t n);

  int64_t fewest_, most_;
  State state_;
};

}  // namespace hexad::plan
