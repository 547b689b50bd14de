#include "tools/plan/granularity_search.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::plan {

Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f) {
  base::require(low <= high, "[search_unimodal] the range from ", low, " to ", high, " is empty");
  while (high - low > 2) {
    const int64_t third = (high - low) / 3, left = low + third, right = high - third;
    const auto at_left = f(left);
    if (!at_left) return {left, false};
    const auto at_right = f(right);
    if (!at_right) return {right, false};
    if (*at_left <= *at_right)
      high = right - 1;
    else
      low = left + 1;
  }
  int64_t best = low;
  double least = 0;
  for (int64_t n = low; n <= high && high > low; ++n) {
    const auto value = f(n);
    if (!value) return {n, false};
    if (n == low || *value < least) best = n, least = *value;
  }
  return {best, true};
}

GranularitySearch::GranularitySearch(int64_t fewest, int64_t most, State state)
    : fewest_(fewest), most_(most), state_(std::move(state)) {
  base::require(1 <= fewest && fewest <= most, "[GranularitySearch] from ", fewest, " to ", most, " micro-batches");
}

// Returns the bounds of n for `batch`, which are the n of the neighbouring ranges. By the sentinels of G, the smallest
// batch has `fewest_` micro-batches and an infinite batch has `most_`. For a batch inside a known range, both bounds
// are that range's n.
GranularitySearch::Bounds GranularitySearch::bounds(int64_t batch) const {
  Bounds b{fewest_, most_};
  for (const auto& [n, range] : state_.ranges) {
    if (range.smallest <= batch && batch <= range.largest) return {n, n};
    if (range.largest < batch) b.low = std::max(b.low, n);
    if (range.smallest > batch) b.high = std::min(b.high, n);
  }
  base::require(b.low <= b.high, "[GranularitySearch] a smaller batch has ", b.low,
                " micro-batches and a larger batch ", b.high, "; expected at least as many");
  b.high = std::max(b.low, std::min(b.high, batch));  // every micro-batch has at least one token
  return b;
}

Trial GranularitySearch::propose(int64_t batch) {
  if (const auto known = state_.chosen.find(batch); known != state_.chosen.end()) return {known->second, true};
  const auto [low, high] = bounds(batch);
  const Trial trial = search_unimodal(low, high, [&](int64_t n) -> std::optional<double> {
    const auto found = state_.seconds.find({batch, n});
    return found == state_.seconds.end() ? std::nullopt : std::optional(found->second);
  });
  return trial.settled ? Trial{conclude(batch, trial.n), true} : trial;
}

int64_t GranularitySearch::conclude(int64_t batch, int64_t otherwise) {
  const auto [low, high] = bounds(batch);
  int64_t best = std::clamp(otherwise, low, high);
  std::optional<double> least;
  for (auto at = state_.seconds.lower_bound({batch, low}); at != state_.seconds.upper_bound({batch, high}); ++at)
    if (!least || at->second < *least) best = at->first.second, least = at->second;
  settle(batch, best);
  return best;
}

void GranularitySearch::record(int64_t batch, int64_t n, double seconds) {
  base::require(fewest_ <= n && n <= most_ && seconds >= 0, "[GranularitySearch] ", seconds, " s for n = ", n);
  const auto [entry, added] = state_.seconds.try_emplace({batch, n}, seconds);
  if (!added) entry->second = std::min(entry->second, seconds);
}

int64_t GranularitySearch::best(int64_t batch, const Measure& measure) {
  Trial trial = propose(batch);
  for (; !trial.settled; trial = propose(batch)) record(batch, trial.n, measure(batch, trial.n));
  return trial.n;
}

void GranularitySearch::settle(int64_t batch, int64_t n) {
  state_.chosen[batch] = n;
  const auto [entry, added] = state_.ranges.try_emplace(n, Range{batch, batch});
  Range& range = entry->second;
  range = {std::min(range.smallest, batch), std::max(range.largest, batch)};
  // Sentinels: a batch that is smaller than any batch cut into `fewest_` parts is also cut into `fewest_`. A batch that
  // is larger than any batch cut into `most_` parts is also cut into `most_`.
  if (n == fewest_) range.smallest = 0;
  if (n == most_) range.largest = INT64_MAX;
}

}  // namespace hexad::plan
