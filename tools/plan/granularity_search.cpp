#include "tools/plan/granularity_search.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/median.h"

namespace hexad::plan {

Trial search_unimodal(int64_t low, int64_t high, const std::function<std::optional<double>(int64_t)>& f) {
  base::require(low <= high, "[search_unimodal] the range from ", low, " to ", high,
                " is empty; expected at least one number");
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

SampleSummary summary_of(std::vector<double> samples) {
  base::require(!samples.empty(), "[summary_of] no samples are given, expected at least one");
  SampleSummary summary{.median = base::median(samples)};
  for (double& s : samples) s = std::abs(s - summary.median);
  summary.deviation = base::median(std::move(samples));
  return summary;
}

bool indistinct(const SampleSummary& a, const SampleSummary& b) {
  return std::abs(a.median - b.median) <= std::max(a.deviation, b.deviation);
}

namespace {

std::vector<int64_t> all_from(int64_t fewest, int64_t most) {
  base::require(1 <= fewest && fewest <= most, "[GranularitySearch] the search is from ", fewest, " to ", most,
                " micro-batches; expected at least 1, in ascending order");
  std::vector<int64_t> all;
  for (int64_t n = fewest; n <= most; ++n) all.push_back(n);
  return all;
}

}  // namespace

GranularitySearch::GranularitySearch(std::vector<int64_t> numbers, int64_t samples, State state)
    : numbers_(std::move(numbers)), samples_(samples), state_(std::move(state)) {
  base::require(!numbers_.empty() && numbers_.front() >= 1 && std::ranges::is_sorted(numbers_) && samples >= 1,
                "[GranularitySearch] the search has ", numbers_.size(), " numbers of micro-batches, and ", samples,
                " samples for each; expected ascending numbers from 1, and at least 1 sample");
}

GranularitySearch::GranularitySearch(int64_t fewest, int64_t most, State state)
    : GranularitySearch(all_from(fewest, most), 1, std::move(state)) {}

// Returns the bounds of n for `batch`: the n of the neighbouring ranges. A bound is the search's smallest or largest n
// if there is no range on that side of `batch`. Both bounds are the range's n if a known range contains `batch`.
GranularitySearch::Bounds GranularitySearch::bounds(int64_t batch) const {
  const auto position = [&](int64_t n) -> size_t { return std::ranges::lower_bound(numbers_, n) - numbers_.begin(); };
  int64_t low = numbers_.front(), high = numbers_.back();
  for (const auto& [n, range] : state_.ranges) {
    if (range.smallest <= batch && batch <= range.largest) return {position(n), position(n)};
    if (range.largest < batch) low = std::max(low, n);
    if (range.smallest > batch) high = std::min(high, n);
  }
  base::require(low <= high, "[GranularitySearch] a smaller batch has ", low, " micro-batches and a larger batch ",
                high, "; expected at least ", low, " for the larger batch");
  Bounds b{position(low), position(high)};
  while (b.high > b.low && numbers_[b.high] > batch) --b.high;  // every micro-batch has at least one token
  return b;
}

std::optional<SampleSummary> GranularitySearch::measured(int64_t batch, int64_t n) const {
  const auto found = state_.samples.find({batch, n});
  if (found == state_.samples.end() || std::ssize(found->second) < samples_) return {};
  return summary_of({found->second.begin(), found->second.begin() + samples_});
}

Trial GranularitySearch::propose(int64_t batch) {
  if (const auto known = state_.chosen.find(batch); known != state_.chosen.end()) return {known->second, true};
  const auto [low, high] = bounds(batch);
  const Trial trial = search_unimodal(static_cast<int64_t>(low), static_cast<int64_t>(high),
                                      [&](int64_t position) -> std::optional<double> {
                                        const auto known = measured(batch, numbers_[position]);
                                        return known ? std::optional(known->median) : std::nullopt;
                                      });
  const int64_t n = numbers_[trial.n];
  return trial.settled ? Trial{conclude(batch, n), true} : Trial{n, false};
}

int64_t GranularitySearch::conclude(int64_t batch, int64_t otherwise) {
  const auto [low, high] = bounds(batch);
  const auto first = numbers_.begin() + static_cast<std::ptrdiff_t>(low);
  const std::span<const int64_t> legal(first, numbers_.begin() + static_cast<std::ptrdiff_t>(high) + 1);
  int64_t best = *std::ranges::min_element(legal, {}, [&](int64_t n) { return std::abs(n - otherwise); });
  std::optional<SampleSummary> least;
  for (const int64_t n : legal)
    if (const auto known = measured(batch, n); known && (!least || known->median < least->median))
      best = n, least = known;
  // Fewer micro-batches need fewer messages, so the smallest number wins if the times do not decide.
  for (const int64_t n : legal)
    if (const auto known = measured(batch, n); known && indistinct(*known, *least)) {
      best = n;
      break;
    }
  settle(batch, best);
  return best;
}

void GranularitySearch::record(int64_t batch, int64_t n, double seconds) {
  base::require(std::ranges::binary_search(numbers_, n) && seconds >= 0, "[GranularitySearch] ", seconds,
                " s are recorded for n = ", n, "; expected at least 0 s, and n to be one of the ", numbers_.size(),
                " numbers of the search");
  state_.samples[{batch, n}].push_back(seconds);
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
  // These limits replace the sentinels of the paper's G. A batch that is smaller than a batch with the fewest
  // micro-batches also gets the fewest. A batch that is larger than a batch with the most also gets the most.
  if (n == numbers_.front()) range.smallest = 0;
  if (n == numbers_.back()) range.largest = INT64_MAX;
}

}  // namespace hexad::plan
