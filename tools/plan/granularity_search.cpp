#include "tools/plan/granularity_search.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::plan {

Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f) {
  base::require(low <= high, "[search_unimodal] nothing from ", low, " to ", high);
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

Trial GranularitySearch::propose(int64_t batch) {
  if (const auto known = state_.chosen.find(batch); known != state_.chosen.end()) return {known->second, true};
  // The neighbours' n bound that of this batch: with G's sentinels, the smallest batch takes the fewest, infinity the
  // most.
  int64_t low = fewest_, high = most_;
  for (const auto& [n, range] : state_.ranges) {
    if (range.smallest <= batch && batch <= range.largest) {
      state_.chosen[batch] = n;
      return {n, true};
    }
    if (range.largest < batch) low = std::max(low, n);
    if (range.smallest > batch) high = std::min(high, n);
  }
  base::require(low <= high, "[GranularitySearch] a smaller batch takes ", low, ", a larger one ", high);
  high = std::max(low, std::min(high, batch));  // no micro-batch without a token
  const Trial trial = search_unimodal(low, high, [&](int64_t n) -> std::optional<double> {
    const auto found = state_.seconds.find({batch, n});
    return found == state_.seconds.end() ? std::nullopt : std::optional(found->second);
  });
  if (trial.settled) settle(batch, trial.n);
  return trial;
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
  // The sentinels: whatever is smaller than a batch of the fewest, or larger than one of the most, is as that one.
  if (n == fewest_) range.smallest = 0;
  if (n == most_) range.largest = INT64_MAX;
}

}  // namespace hexad::plan
