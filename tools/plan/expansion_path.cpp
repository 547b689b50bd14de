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
  Shortfall lack{.least = {}, .memory = memory};
  if (!plan.best.empty()) lack.least = FittingLayout{context, ranks, std::move(plan.best.front())};
  return lack;
}

std::optional<FittingLayout> with_more_ranks(const PlanAt& plan_at, const Shortfall& lack) {
  if (!lack.least) return {};
  for (int64_t times = 2; times <= 64 && lack.least->ranks * times <= most_planned_ranks; times *= 2) {
    if (lack.least->layout.memory.total > lack.memory * static_cast<double>(times)) continue;
    if (auto fit = first_fit(plan_at, lack.least->context, lack.least->ranks * times)) return fit;
  }
  return {};
}

std::optional<FittingLayout> with_shorter_context(const PlanAt& plan_at, const Shortfall& lack) {
  if (!lack.least) return {};
  std::vector<int64_t> shorter;
  for (int64_t n = lack.least->context; n % 2 == 0 && n / 2 >= 1024;) shorter.push_back(n /= 2);
  if (shorter.empty()) return {};
  // If the shortest length does not fit, longer lengths do not fit either.
  auto shortest = first_fit(plan_at, shorter.back(), lack.least->ranks);
  if (!shortest) return {};
  shorter.pop_back();
  for (const int64_t context : shorter)
    if (auto fit = first_fit(plan_at, context, lack.least->ranks)) return fit;
  return shortest;
}

std::vector<PathPoint> expansion_path(const PlanAt& plan_at, const PathRequest& request) {
  std::vector<PathPoint> path;
  int64_t ranks = request.ranks;
  double memory = 0;
  bool fits = true;
  for (const int64_t context : request.lengths) {
    PathPoint point{.context = context, .ranks = ranks, .layout = {}, .lack = {}};
    while (fits && !point.layout) {
      Plan plan = plan_at({.context = context, .ranks = ranks, .objective = request.objective});
      memory = plan.memory;
      if (!plan.best.empty())
        point.layout = std::move(plan.best.front());
      else if (ranks < request.most_ranks)
        ranks = std::min(2 * ranks, request.most_ranks);
      else
        fits = false;
    }
    point.ranks = ranks;
    if (!fits) point.lack = shortfall(plan_at, context, ranks, memory);
    if (point.lack && point.lack->fits()) {
      point.layout = std::move(point.lack->least->layout);
      point.lack.reset();
      fits = true;
    }
    path.push_back(std::move(point));
    if (!path.front().layout) break;
  }
  return path;
}

}  // namespace hexad::plan
