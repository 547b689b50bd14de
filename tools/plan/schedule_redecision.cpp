// Re-decision of a schedule for the present load of the experts: member functions of ScheduleChoice.
#include <algorithm>
#include <numeric>
#include <utility>

#include "layers/moe/schedule/schedule_rules.h"
#include "tools/plan/schedule_choice.h"

namespace hexad::plan {
namespace {

// Least gain for which the schedule is changed. Predictions are not good enough for smaller differences.
constexpr double least_gain = 0.05;

// Returns the share of the busiest of `ranks` ranks, which have equal blocks of experts, over the mean share.
double imbalance(const std::vector<double>& shares, int ranks) {
  const size_t local = shares.size() / static_cast<size_t>(ranks);
  double most = 0;
  for (size_t first = 0; first < shares.size(); first += local)
    most = std::max(most, std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(first),
                                          shares.begin() + static_cast<std::ptrdiff_t>(first + local), 0.0));
  return most * ranks;
}

// Returns the shares of the layer whose imbalance is the median of all layers. The mean of all layers would be too
// even, because each layer has other busy experts.
const std::vector<double>& typical_layer(const ExpertShares& loads, int ranks) {
  std::vector<const std::vector<double>*> order;
  for (const std::vector<double>& shares : loads) order.push_back(&shares);
  std::ranges::stable_sort(order, {}, [&](const auto* shares) { return imbalance(*shares, ranks); });
  return *order[order.size() / 2];
}

// Returns the ratio of measured to predicted seconds that applies to candidates without trials: the median over the
// others.
double usual_error(const std::vector<ScheduleCandidate>& candidates) {
  std::vector<double> errors;
  for (const ScheduleCandidate& c : candidates)
    if (!c.measured.empty() && c.predicted > 0) errors.push_back(c.measured_seconds() / c.predicted);
  return errors.empty() ? 1 : summary_of(errors).median;
}

}  // namespace

// Returns the schedules that a re-decision must compare, whatever their graphs: the current one, those with trials, and
// those of earlier switches.
std::vector<size_t> ScheduleChoice::compared_candidates() {
  std::vector<size_t> all{current_};
  const auto add = [&](size_t candidate) {
    if (std::ranges::find(all, candidate) == all.end()) all.push_back(candidate);
  };
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (!candidates_[i].measured.empty()) add(i);
  for (const Switch& s : switches_)
    for (const std::string& name : {s.from, s.to})
      if (const auto schedule = allowed(name)) add(index_of(*schedule));
  return all;
}

std::optional<ScheduleChoice::Redecision> ScheduleChoice::redecide(int64_t step, const ExpertShares& loads) {
  base::require(made_, "[ScheduleChoice] step ", step, ": the first choice is not made yet");
  if (loads.empty() || memory_.schedules.size() < 2) return {};
  const int ranks = instance_.mesh[base::Axis::ep].size();
  const std::vector<double>& shares = typical_layer(loads, ranks);
  const RoutingLoad load(ExpertShares{shares});
  const double usual = usual_error(candidates_);
  std::vector<ScheduleCandidate>
      now;  // predictions for this load, scaled by the errors of trials; first: the current one
  const auto add = [&](ScheduleCandidate candidate, double error) {
    candidate.predicted *= error;
    now.push_back(std::move(candidate));
  };
  for (const size_t i : compared_candidates()) {
    const ScheduleCandidate known = candidates_[i];
    add(predicted_schedule(recipe_, instance_.extensions, predictor_, world_, known.schedule, load),
        known.measured.empty() || known.predicted <= 0 ? usual : known.measured_seconds() / known.predicted);
  }
  const size_t compared = now.size();
  for (ScheduleCandidate& other :
       predicted_schedules(recipe_, instance_.extensions, predictor_, world_, memory_.schedules, load)) {
    const auto known = now.begin() + static_cast<std::ptrdiff_t>(compared);
    const auto twin = std::find_if(now.begin(), known, [&](const auto& c) { return c.graphs == other.graphs; });
    if (twin == known) add(std::move(other), usual);  // a twin does the same work
  }
  // Orders equal times by name, because a resumed run may have the candidates in another order.
  const ScheduleCandidate& before = now.front();
  const auto best = std::ranges::min_element(
      now, {}, [](const ScheduleCandidate& c) { return std::pair(c.predicted, moe::to_string(c.schedule)); });
  Redecision out{.imbalance = imbalance(shares, ranks),
                 .from = moe::to_string(before.schedule),
                 .fastest = moe::to_string(best->schedule),
                 .gain = best->predicted > 0 ? before.predicted / best->predicted - 1 : 0};
  out.switched = out.gain > least_gain;
  out.same_bits = moe::same_bits(before.schedule, best->schedule, recipe_.device == device::DeviceKind::cuda);
  if (out.switched) {
    switches_.push_back({step, out.from, out.fastest});
    set(index_of(best->schedule));
  }
  return out;
}

}  // namespace hexad::plan
