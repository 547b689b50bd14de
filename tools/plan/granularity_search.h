// MPMoE's Algorithm 1 (Zhang et al. 2024, section 4.1). It finds the best number of micro-batches of a batch from
// measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hexad::plan {

/// Result of one step of a search.
struct Trial {
  int64_t n;
  bool settled;  // true: n is the answer; false: measure n and search again
};

/// Finds the n in [low, high] with the least f by ternary search. f must fall and then rise, or only fall, or only
/// rise. The search compares f at the two points that divide the interval into thirds. It drops the outer third at the
/// larger value. Returns {n, false} if `f` returns none for n. The caller must then measure this n. Among equal values,
/// the smallest n wins.
Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f);

/// Median of samples, and the median absolute deviation from this median (base::median()). A few slow steps of a shared
/// machine do not affect these numbers.
struct SampleSummary {
  double median = 0, deviation = 0;
};
/// Returns the summary of `samples`, which must have at least one sample.
SampleSummary summary_of(std::vector<double> samples);
/// True if the samples of `a` and `b` do not show which is smaller: their medians differ by at most the larger
/// deviation.
bool indistinct(const SampleSummary& a, const SampleSummary& b);

/// Finds the best number n of micro-batches for batches of any size B with few measurements. The search uses two
/// hypotheses of the paper: the best n does not fall when B grows, and the time as a function of n falls and then
/// rises. The search remembers ranges of B with the same n. A B inside a known range needs no measurement. For any
/// other B, the search is limited to the n of the neighbouring ranges. Each restore strategy and each schedule needs
/// its own object.
///
/// This class corrects the printed algorithm in three points:
/// - The smallest n is 1 (as in the paper's text), or `fewest` if `fewest` is larger.
/// - A B inside a known range gets the n of that range.
/// - Line 22 widens the range of n itself, not the range of a neighbour.
///
/// A caller either gives best() a function that measures, or drives the search step by step:
///
///   for (Trial t = search.propose(batch); !t.settled; t = search.propose(batch)) search.record(batch, t.n, run(t.n));
///
/// A trainer can therefore use its regular steps as measurements. Every n is measured the same number of times, and the
/// median counts. Among the n that are indistinct from the fastest, the smallest wins. The search is deterministic:
/// ranks that record the same times (for example the maximum over all ranks) make the same proposals.
class GranularitySearch {
 public:
  struct Range {
    int64_t smallest, largest;  // smallest and largest batch known to have the same best n
    bool operator==(const Range&) const = default;
  };
  /// Results so far, as plain data that can be saved and restored.
  struct State {
    std::map<int64_t, Range> ranges;    // ranges by n: the paper's G, but empty at the beginning
    std::map<int64_t, int64_t> chosen;  // chosen n by B: the paper's C
    std::map<std::pair<int64_t, int64_t>, std::vector<double>> samples;  // measured seconds by (B, n)
    bool operator==(const State&) const = default;
  };
  using Measure = std::function<double(int64_t batch, int64_t n)>;  // returns the measured seconds

  /// Makes a search over the n in `numbers`, which must be ascending and at least 1. An n counts as measured for a
  /// batch once `samples` times have been recorded for this batch and n. Later times of this pair are ignored.
  GranularitySearch(std::vector<int64_t> numbers, int64_t samples, State state = {});
  /// Makes a search over every n from `fewest` to `most`, with one recorded time for each n. Requires 1 <= fewest <=
  /// most.
  GranularitySearch(int64_t fewest, int64_t most, State state = {});

  /// Returns the n to use for `batch` (settled), or the n to measure next. Also uses the recorded times of an n that
  /// was not proposed.
  Trial propose(int64_t batch);
  /// Settles `batch` without further measurements. Considers each n that the neighbouring ranges allow and that has all
  /// its samples. Returns the smallest n that is indistinct from the fastest. Returns the allowed n nearest to
  /// `otherwise` if no allowed n has all its samples.
  int64_t conclude(int64_t batch, int64_t otherwise);
  /// Records a time. `n` must be one of the search's numbers.
  void record(int64_t batch, int64_t n, double seconds);
  /// Returns the summary of the times of n that count; none if too few times of n are recorded.
  std::optional<SampleSummary> measured(int64_t batch, int64_t n) const;
  /// Calls `measure` until n is settled for `batch`. Returns this n.
  int64_t best(int64_t batch, const Measure& measure);

  const State& state() const { return state_; }

 private:
  struct Bounds {
    size_t low, high;  // indices into numbers_
  };
  Bounds bounds(int64_t batch) const;
  void settle(int64_t batch, int64_t n);

  std::vector<int64_t> numbers_;
  int64_t samples_;
  State state_;
};

}  // namespace hexad::plan
