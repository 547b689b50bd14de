#include "framework/telemetry/rank_times.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/median.h"

namespace hexad::telemetry {

namespace {

template <class Value>
Spread spread_of(std::span<const RankTime> ranks, Value&& value) {
  std::vector<double> values;
  values.reserve(ranks.size());
  for (const RankTime& r : ranks) values.push_back(value(r));
  const auto [least, most] = std::ranges::minmax(values);
  return {least, base::lower_median(std::move(values)), most};
}

}  // namespace

RankTimes rank_times(std::span<const RankTime> ranks) {
  RankTimes times{.step_seconds = spread_of(ranks, [](const RankTime& r) { return r.step_seconds; }),
                  .waited_seconds = spread_of(ranks, [](const RankTime& r) { return r.waited_seconds; }),
                  .own_seconds = spread_of(ranks, [](const RankTime& r) { return r.own_seconds(); }),
                  .slowest = {}};
  std::vector<int> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto own = [&](int r) { return ranks[r].own_seconds(); };
  const auto slower = [&](int a, int b) { return own(a) != own(b) ? own(a) > own(b) : a < b; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), RankTimes::listed));
  std::ranges::partial_sort(order, end, slower);
  order.erase(end, order.end());
  for (int r : order) times.slowest.push_back({r, own(r), ranks[r].waited_seconds});
  return times;
}

SlowRanks::SlowRanks(std::vector<int> kind_of_rank)
    : kinds_(std::move(kind_of_rank)), own_(kinds_.size()), named_(kinds_.size()) {}

std::vector<SlowRanks::Slow> SlowRanks::add(std::span<const RankTime> ranks) {
  base::require(ranks.size() == own_.size(), "[slow ranks] the number of times is ", ranks.size(), "; expected ",
                own_.size(), ", one for each rank");
  for (size_t r = 0; r < ranks.size(); ++r) own_[r][steps_] = ranks[r].own_seconds();
  if (++steps_ < window) return {};
  steps_ = 0;
  return look();
}

std::vector<SlowRanks::Slow> SlowRanks::look() {
  std::vector<double> usual;  // by rank: the median over the window, because one slow step does not make a rank slow
  usual.reserve(own_.size());
  for (const auto& steps : own_) usual.push_back(base::lower_median({steps.begin(), steps.end()}));
  std::map<int, std::vector<double>> of_kind;
  for (size_t r = 0; r < usual.size(); ++r) of_kind[kinds_[r]].push_back(usual[r]);
  std::map<int, double> medians;  // median of `usual` over the ranks of each kind
  for (auto& [kind, seconds] : of_kind) medians[kind] = base::lower_median(std::move(seconds));
  std::vector<Slow> slow;
  for (size_t r = 0; r < usual.size(); ++r) {
    const double median = medians.at(kinds_[r]);
    Named& named = named_[r];
    if (usual[r] <= limit * median || usual[r] < median + least_excess_seconds) {
      named = {};
    } else if (named.windows_left > 0) {
      --named.windows_left;
    } else {
      slow.push_back({static_cast<int>(r), usual[r], median});
      named.windows_left = named.pause;
      named.pause *= 2;
    }
  }
  std::ranges::sort(slow, std::greater{}, &Slow::own_seconds);
  return slow;
}

}  // namespace hexad::telemetry
