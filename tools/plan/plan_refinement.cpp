#include "tools/plan/plan_refinement.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace hexad::plan {

using train::Recipe;

namespace {

constexpr size_t max_refined = 3;
constexpr int64_t max_changes_of_layout = 13;
// Largest number of layouts that are too large, but are tried with offload. Their steps seem shorter than the step of
// the best layout. For each layout, made_to_fit() tries up to three changes.
constexpr size_t max_offloaded = 2;
// Smallest relative gain for which a changed key is accepted.
constexpr double least_improvement = 0.001;

bool is_less(double after, double before) { return after < (1 - least_improvement) * before; }

}  // namespace

void simulate(PlannedLayout& l, const PlanSite& site) {
  const Recipe& r = l.candidate.recipe;
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(site.request.world));
  l.step = forecast_step(r, site.extensions, layout, site.prices, site.request.load, site.shared);
  l.step.records.clear(), l.step.simulated = {};
}

bool is_simulated(PlannedLayout& l, const PlanSite& site) try {
  simulate(l, site);
  return true;
} catch (const base::Error& e) {
  if (e.code() != base::ExitCode::usage) throw;
  return false;
}

// Estimates the memory of a layout. Stops early if the memory exceeds `limit` bytes.
void PlanRefinement::estimate(PlannedLayout& l, double limit) const {
  l.memory = estimate_memory_within(limit, l.candidate.recipe, site_.extensions, site_.request.world,
                                    site_.request.load, site_.shared);
}

// True if the layout fits the memory of a rank and of its host, and can be simulated. Counts a layout for which only
// the host's memory is too small.
bool PlanRefinement::fits_and_is_simulated(PlannedLayout& l) {
  if (l.counted_memory() > site_.memory || !simulated(l)) return false;
  too_large_for_host_ += !offload_fits(l);
  return offload_fits(l);
}

// Replaces `best` by the changed layout, and returns true, if the changed layout is better. Computes the deciding
// quantity first, because most changes gain nothing, and the second quantity is then not needed.
bool PlanRefinement::improves(PlannedLayout& best, const Recipe& changed) {
  PlannedLayout l = best;
  l.candidate.recipe = changed;
  // Accepts offload that does not grow, because the recipe itself may offload to a host whose memory is unknown.
  const auto offload_is_possible = [&] {
    const bool possible = offload_fits(l) || l.memory.offloaded <= best.memory.offloaded;
    too_large_for_host_ += !possible;
    return possible;
  };
  if (site_.request.objective == Objective::memory) {
    estimate(l, best.memory.total);
    if (!is_less(l.memory.total, best.memory.total) || !simulated(l) || !offload_is_possible()) return false;
  } else {
    if (!simulated(l) || !is_less(l.step.seconds, best.step.seconds)) return false;
    estimate(l, site_.memory);
    if (l.counted_memory() > site_.memory || !offload_is_possible()) return false;
  }
  best = std::move(l);
  return true;
}

// Returns micro_batch_of_few_layers(), the seconds of a micro-batch of one period of layers; none if they are unknown.
std::optional<double> PlanRefinement::micro_batch(const Recipe& r) {
  const auto [at, is_new] = micro_batches_.try_emplace(PlanCandidate{r}.settings());
  if (!is_new) return at->second;
  try {
    at->second = micro_batch_of_few_layers(r, site_.extensions, site_.prices.prices(), site_.request.world,
                                           site_.request.load, site_.shared);
  } catch (const base::Error& e) {
    if (e.code() != base::ExitCode::usage) throw;
  }
  return at->second;
}

// True if a change inside layers shortens a micro-batch of one period of layers. Also true if the seconds of this
// micro-batch are unknown, and under Objective::memory. Also true if micro-batches overlap, because a single
// micro-batch then does not show the gain of a change.
bool PlanRefinement::may_be_faster(const PlannedLayout& best, const Recipe& changed) {
  const Recipe& before = best.candidate.recipe;
  if (site_.request.objective == Objective::memory || before.schedule.pipeline.overlap != pp::Overlap::none)
    return true;
  const std::optional<double> now = micro_batch(before), then = micro_batch(changed);
  return !now || !then || *then < *now;
}

PlannedLayout PlanRefinement::refined(PlannedLayout best, int64_t most) {
  const int64_t last = changes_ + most;
  std::set<Settings> tried = known_;
  tried.insert(best.candidate.settings());
  const auto improve = [&](const ChangesOfKey& key) {
    bool gained = false;
    for (const Recipe& r : key.changed_recipes(best.candidate.recipe, site_)) {
      if (site_.rules.broken(r) || !tried.insert(PlanCandidate{r}.settings()).second) continue;
      if (changes_ == last) {
        ++untried_changes_;
        continue;
      }
      ++changes_;
      if (!key.in_layers || may_be_faster(best, r)) gained = improves(best, r) || gained;
    }
    return gained;
  };
  for (bool gained = true; gained;) {
    gained = false;
    for (const ChangesOfKey& key : changes_by_key())
      while (improve(key)) gained = true;
  }
  return best;
}

void PlanRefinement::refine_first(std::vector<PlannedLayout>& layouts, size_t count) {
  for (const PlannedLayout& l : layouts) known_.insert(l.candidate.settings());
  count = std::min({layouts.size(), count, max_refined});
  const int64_t last = changes_ + max_changes_of_layout * static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i)
    layouts[i] = refined(std::move(layouts[i]), (last - changes_) / static_cast<int64_t>(count - i));
}

std::optional<PlannedLayout> PlanRefinement::made_to_fit(PlannedLayout l) {
  for (Recipe& r : with_more_offloaded(l.candidate.recipe)) {
    l.candidate.recipe = std::move(r);
    ++changes_;
    estimate(l, site_.memory);
    if (fits_and_is_simulated(l)) return l;
  }
  return {};
}

std::vector<PlannedLayout> PlanRefinement::smallest_that_fit(std::vector<PlannedLayout> layouts) {
  std::ranges::stable_sort(layouts, {},
                           [](const PlannedLayout& l) { return std::pair(l.composed.memory, l.composed.seconds); });
  if (layouts.size() > 2 * max_refined) layouts.resize(2 * max_refined);
  for (PlannedLayout& l : layouts) estimate(l);
  std::ranges::stable_sort(layouts, {}, [](const PlannedLayout& l) { return l.memory.total; });
  refine_first(layouts, max_refined);
  std::vector<PlannedLayout> all;
  for (PlannedLayout& l : layouts) {
    least_memory_ = std::min(least_memory_, l.memory.total);
    if (fits_and_is_simulated(l)) all.push_back(std::move(l));
  }
  return all;
}

namespace {

void add_smallest(Plan& plan, std::vector<PlannedLayout> too_large, const PlanSite& site) {
  PlanRequest request = site.request;
  request.objective = Objective::memory;
  const PlanSite by_memory{.rules = site.rules,
                           .extensions = site.extensions,
                           .prices = site.prices,
                           .request = request,
                           .memory = site.memory,
                           .host_memory = site.host_memory,
                           .shared = site.shared};
  PlanRefinement refinement(by_memory);
  plan.best = refinement.smallest_that_fit(std::move(too_large));
  plan.least_memory = std::min(plan.least_memory, refinement.least_memory());
  plan.changes = refinement.changes(), plan.untried_changes = refinement.untried_changes();
  plan.too_large_for_host = refinement.too_large_for_host();
}

// Removes layouts that have the settings of an earlier layout, because refinement can make two layouts equal.
void remove_duplicates(std::vector<PlannedLayout>& layouts, int64_t world) {
  std::set<std::vector<std::pair<std::string, std::string>>> seen;
  std::erase_if(layouts,
                [&](const PlannedLayout& l) { return !seen.insert(l.candidate.effective_settings(world)).second; });
}

// Adds layouts that fit with offload and whose steps seem shorter than the step of the plan's first layout.
void add_offloaded(Plan& plan, std::vector<PlannedLayout> too_large, PlanRefinement& refinement) {
  const double seconds = plan.best.front().step.seconds;
  std::erase_if(too_large, [&](const PlannedLayout& l) { return l.composed.seconds >= seconds; });
  std::ranges::stable_sort(too_large, {}, [](const PlannedLayout& l) { return l.composed.seconds; });
  if (too_large.size() > max_offloaded) too_large.resize(max_offloaded);
  for (PlannedLayout& l : too_large)
    if (auto fit = refinement.made_to_fit(std::move(l))) plan.best.push_back(std::move(*fit));
}

}  // namespace

void refine(Plan& plan, std::vector<PlannedLayout> too_large, std::optional<PlannedLayout> own, const PlanSite& site) {
  const bool by_memory = site.request.objective == Objective::memory, none_fits = plan.best.empty();
  const auto sort = [&] {
    std::ranges::stable_sort(plan.best, {}, [&](const PlannedLayout& l) {
      return goal(site.request.objective, l.step.seconds, l.memory.total);
    });
  };
  PlanRefinement refinement(site);
  if (none_fits) add_smallest(plan, std::move(too_large), site);
  sort();
  if (!none_fits && !by_memory) add_offloaded(plan, std::move(too_large), refinement);
  if (own) plan.best.push_back(std::move(*own));
  sort();
  if (!none_fits || !by_memory) refinement.refine_first(plan.best, site.request.wanted), sort();
  plan.changes += refinement.changes(), plan.untried_changes += refinement.untried_changes();
  plan.too_large_for_host += refinement.too_large_for_host();
  remove_duplicates(plan.best, site.request.world);
}

}  // namespace hexad::plan
