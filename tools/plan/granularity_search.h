// MPMoE's Algorithm 1 (Zhang et al. 2024, section 4.1): into how many micro-batches a batch is cut, found by measuring.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace hexad::plan {

/// The n in [low, high] for which f is least. f must fall and then rise (or do only one of them). Ternary search: f is
/// compared at the two inner points of an interval's thirds, and the third behind the larger value is dropped. Where
/// `f` returns nothing it must be measured first: then that n is returned, unsettled. Of equal values the smaller n
/// counts.
struct Trial {
  int64_t n;
  bool settled;  // n is the answer; otherwise measure n and ask again
};
Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f);

/// Finds n for batches B of any size with few measurements, by two hypotheses of the paper: the best n does not fall
/// when B grows, and time over n falls and then rises. It remembers ranges of B that share an n: a B inside one needs
/// no measurement; another is searched for between the n of its neighbours. One object for each restore strategy and
/// schedule.
///
/// The printed algorithm is corrected: the smallest n is 1, as its text says, unless `fewest` says otherwise; a B
/// inside a known range gets that range's n; line 22 widens the range of n itself, not that of a neighbour.
///
/// Either give `best` a function that measures, or drive the search step by step:
///
///   for (Trial t = search.propose(batch); !t.settled; t = search.propose(batch)) search.record(batch, t.n, run(t.n));
///
/// so that a trainer can let steps that it does anyway be the measurements. It is deterministic: ranks that record the
/// same times (the maximum over them, say) go on alike.
class GranularitySearch {
 public:
  struct Range {
    int64_t smallest, largest;  // batches known to be best cut into n
    bool operator==(const Range&) const = default;
  };
  /// Results so far: plain data, to be saved and restored.
  struct State {
    std::map<int64_t, Range> ranges;                        // by n: the paper's G, without its sentinels
    std::map<int64_t, int64_t> chosen;                      // by B: C
    std::map<std::pair<int64_t, int64_t>, double> seconds;  // by (B, n)
    bool operator==(const State&) const = default;
  };
  using Measure = std::function<double(int64_t batch, int64_t n)>;  // seconds

  /// 1 <= fewest <= most.
  GranularitySearch(int64_t fewest, int64_t most, State state = {});

  /// The n to use for `batch` (settled), or the n to measure next. Times recorded of other n count, too.
  Trial propose(int64_t batch);
  /// Settles `batch` without measuring any further: the quickest n that was measured, `otherwise` where none was.
  int64_t conclude(int64_t batch, int64_t otherwise);
  /// Notes a time. If there are several of one (batch, n), the shortest counts.
  void record(int64_t batch, int64_t n, double seconds);
  /// Measures until it is settled.
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
