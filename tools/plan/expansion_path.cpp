#include "tools/plan/expansion_path.h"

#include <algorithm>
#include <utility>

namespace hexad::plan {
namespace {

// Number of layouts to request if it only matters whether a layout fits.
constexpr size_t few_plans = 3;

std::optional<FittingLayout> first_fit(const PlanAt& plan_at, int64_t context, int64_t ranks) {
  Plan plan = plan_at({.context = context, .ranks = ranks, .objective = Objective::memory, .wanted = few_plans});
  if (plan.best.empty()) return {};
  return FittingLayout{context, ranks, std::move(plan.best.front())};
}

}  // namespace

Shortfall shortfall(const PlanAt& plan_at, int64_t context, int64_t ranks, double memory) {
  Plan plan = plan_at(
      {.context = context, .ranks = ranks, .objective = Objective::memory, .wanted = few_plans, .any_memory = true});
  Shortfall result{.least = {}, .memory = memory};
  if (!plan.best.empty()) result.least = FittingLayout{context, ranks, std::move(plan.best.front())};
  return result;
}

std::optional<FittingLayout> with_more_ranks(const PlanAt& plan_at, const Shortfall& shortfall) {
  if (!shortfall.least) return {};
  for (int64_t times = 2; times <= 64 && shortfall.least->ranks * times <= max_planned_ranks; times *= 2) {
    if (shortfall.least->layout.counted_memory() > shortfall.memory * static_cast<double>(times)) continue;
    if (auto fit = first_fit(plan_at, shortfall.least->context, shortfall.least->ranks * times)) return fit;
  }
  return {};
}

std::optional<FittingLayout> with_shorter_context(const PlanAt& plan_at, const Shortfall& shortfall) {
  if (!shortfall.least) return {};
  std::vector<int64_t> shorter;
  for (int64_t n = shortfall.least->context; n % 2 == 0 && n / 2 >= 1024;) shorter.push_back(n /= 2);
  if (shorter.empty()) return {};
  // Longer lengths do not fit if the shortest length does not fit.
  auto shortest = first_fit(plan_at, shorter.back(), shortfall.least->ranks);
  if (!shortest) return {};
  shorter.pop_back();
  for (const int64_t context : shorter)
    if (auto fit = first_fit(plan_at, context, shortfall.least->ranks)) return fit;
  return shortest;
}

std::vector<PathPoint> expansion_path(const PlanAt& plan_at, const PathRequest& request) {
  std::vector<PathPoint> path;
  int64_t ranks = request.ranks;
  double memory = 0;
  bool fits = true;
  for (const int64_t context : request.lengths) {
    PathPoint point{.context = context, .ranks = ranks, .layout = {}, .shortfall = {}};
    while (fits && !point.layout) {
      Plan plan = plan_at({.context = context, .ranks = ranks, .objective = request.objective});
      memory = plan.memory;
      if (!plan.best.empty())
        point.layout = std::move(plan.best.front());
      else if (ranks < request.max_ranks)
        ranks = std::min(2 * ranks, request.max_ranks);
      else
        fits = false;
    }
    point.ranks = ranks;
    if (!fits) point.shortfall = shortfall(plan_at, context, ranks, memory);
    if (point.shortfall && point.shortfall->fits()) {
      point.layout = std::move(point.shortfall->least->layout);
      point.shortfall.reset();
      fits = true;
    }
    path.push_back(std::move(point));
    if (!path.front().layout) break;
  }
  return path;
}

}  // namespace hexad::plan
