// Re-decision of a schedule for the present load of the experts: member functions of ScheduleChoice.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "layers/moe/schedule/schedule_rules.h"
#include "parallel/comm/text_collectives.h"
#include "tools/plan/schedule_choice.h"

namespace hexad::plan {
namespace {

using moe::MoeSchedule;

// Least gain for which the schedule is changed. Predictions are not good enough for smaller differences.
constexpr double least_gain = 0.05;

// Returns the ratio of the busiest rank's share to the mean share of the `ranks` ep ranks.
double imbalance(const std::vector<double>& shares, int ranks) {
  return std::ranges::max(slots_of_ranks(shares, ranks)) * ranks;
}

// Returns the shares of the layer whose imbalance is the median of all layers. The mean of all layers would be too
// even, because different experts are busy in each layer.
const std::vector<double>& typical_layer(const ExpertShares& loads, int ranks) {
  std::vector<const std::vector<double>*> order;
  for (const std::vector<double>& shares : loads) order.push_back(&shares);
  std::ranges::stable_sort(order, {}, [&](const auto* shares) { return imbalance(*shares, ranks); });
  return *order[order.size() / 2];
}

// Returns the assumed ratio of measured to predicted seconds for candidates without trials. This is the median ratio of
// the candidates with trials, or 1 if no candidate has trials.
double usual_error(const std::vector<ScheduleCandidate>& candidates) {
  std::vector<double> errors;
  for (const ScheduleCandidate& c : candidates)
    if (!c.measured.empty() && c.predicted > 0) errors.push_back(c.measured_seconds() / c.predicted);
  return errors.empty() ? 1 : summary_of(errors).median;
}

}  // namespace

// Returns the schedules that a re-decision always compares: the current schedule, schedules with trials, and schedules
// of earlier switches.
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

// Returns predictions for `load`, scaled by the errors that trials have shown. The current schedule comes first,
// followed by the other compared_candidates(). Then come the predicted_schedules() whose work differs from the work
// of all compared candidates.
std::vector<ScheduleCandidate> ScheduleChoice::candidates_for(const RoutingLoad& load) {
  const std::vector<size_t> known = compared_candidates();
  std::vector<MoeSchedule> schedules;
  for (const size_t i : known) schedules.push_back(candidates_[i].schedule);
  const double usual = usual_error(candidates_);
  std::vector<ScheduleCandidate> all =
      predicted_each(recipe_, instance_.extensions, predictor_, world_, schedules, load);
  for (size_t i = 0; i < known.size(); ++i) {
    const ScheduleCandidate& before = candidates_[known[i]];
    const bool tried = !before.measured.empty() && before.predicted > 0;
    all[i].predicted *= tried ? before.measured_seconds() / before.predicted : usual;
  }
  for (ScheduleCandidate& other :
       predicted_schedules(recipe_, instance_.extensions, predictor_, world_, memory_.schedules, load)) {
    const auto same_work = [&](const ScheduleCandidate& c) { return c.work == other.work; };
    if (std::any_of(all.begin(), all.begin() + std::ssize(known), same_work)) continue;
    other.predicted *= usual;
    all.push_back(std::move(other));
  }
  return all;
}

std::optional<ScheduleChoice::Redecision> ScheduleChoice::redecide(int64_t step, const ExpertShares& loads) {
  base::require(made_, "[ScheduleChoice] redecide() was called at step ", step,
                "; expected a call after the first choice is made");
  if (loads.empty() || memory_.schedules.size() < 2) return {};
  const int ranks = instance_.mesh[base::Axis::ep].size();
  const std::vector<double>& shares = typical_layer(loads, ranks);
  const std::vector<ScheduleCandidate> now = candidates_for(RoutingLoad(ExpertShares{shares}));
  const auto name = [](const ScheduleCandidate& c) { return moe::to_string(c.schedule); };
  // Orders equal times by name, because a resumed run may list the candidates in another order.
  const auto best =
      std::ranges::min_element(now, {}, [&](const ScheduleCandidate& c) { return std::pair(c.predicted, name(c)); });
  const ScheduleCandidate& before = now.front();
  Redecision out{.imbalance = imbalance(shares, ranks),
                 .from = name(before),
                 .fastest = name(*best),
                 .gain = best->predicted > 0 ? before.predicted / best->predicted - 1 : 0};
  // All ranks set the schedule that rank 0 chooses, because ranks with different schedules would wait for each other
  // forever.
  device::DeviceContext host;
  const std::string chosen = comm::broadcast_text(out.gain > least_gain ? out.fastest : out.from, 0, world_, host);
  const auto to = std::ranges::find(now, chosen, name);
  base::require(to != now.end(), "[ScheduleChoice] step ", step, ": rank 0 chose the schedule ", chosen,
                "; expected one of this rank's ", now.size(), " candidates");
  out.switched = chosen != out.from;
  out.same_bits = moe::same_bits(before.schedule, to->schedule, recipe_.device == device::DeviceKind::cuda);
  if (out.switched) {
    switches_.push_back({step, out.from, chosen});
    set(index_of(to->schedule));
  }
  return out;
}

}  // namespace hexad::plan
