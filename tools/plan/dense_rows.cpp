#include "tools/plan/dense_rows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tools/plan/dense_products.h"
#include "tools/plan/measured_kernels.h"

namespace hexad::plan {
namespace {

// Largest ratio of dense to grouped time at which the dense product counts as faster. Smaller differences may be noise.
constexpr double faster = 0.98;

// Compares the sizes that were measured for both products. Returns the smallest number of rows per expert at which, and
// above which, `dense` is always faster than `grouped`; never_dense if there is none.
int64_t turning_point(const MeasuredProduct& dense, const MeasuredProduct& grouped) {
  int64_t rows = never_dense;
  for (const Curve::Point& d : dense.points.points) {
    const auto g = std::ranges::find(grouped.points.points, d.x, &Curve::Point::x);
    if (g == grouped.points.points.end()) continue;
    if (d.y > faster * g->y)
      rows = never_dense;
    else if (rows == never_dense)
      rows = std::max<int64_t>(1, std::llround(d.x / static_cast<double>(dense.experts)));
  }
  return rows;
}

}  // namespace

std::optional<int64_t> measured_dense_rows(const Cluster& cluster, Element element, int64_t inputs, int64_t outputs) {
  const double weight = static_cast<double>(inputs) * static_cast<double>(outputs);
  const DenseAndGrouped pair = nearest_dense(cluster, element, weight);
  return pair.dense ? std::optional(turning_point(*pair.dense, *pair.grouped)) : std::nullopt;
}

std::string take_dense_rows(train::Recipe& recipe) {
  const auto is_open = [](const moe::MoeScheduleConfig& schedule) {
    return (!schedule.gemms || schedule.gemms == moe::Gemms::by_load) && !schedule.dense_rows;
  };
  const bool any = is_open(recipe.schedule.moe) ||
                   std::ranges::any_of(recipe.stages, [&](const auto& s) { return is_open(s.schedule.moe); });
  if (!any || recipe.schedule.profile.empty() || recipe.model.moe.experts == 0) return {};
  const std::optional<Element> element = element_of(train::dtype_of(recipe.train.precision));
  if (!element) return {};
  const Cluster cluster = load_cluster(recipe.schedule.profile);
  std::vector<int64_t> found;  // without repetitions
  const auto take = [&](moe::MoeScheduleConfig& schedule, const train::ParallelConfig& parallel) {
    if (!is_open(schedule)) return;
    const int64_t width = recipe.model.moe.expert_hidden / parallel.etp.value_or(parallel.tp);
    const auto rows = measured_dense_rows(cluster, *element, recipe.model.hidden, std::max<int64_t>(1, width));
    if (!rows) return;
    // With gemms: auto, a threshold that is never reached would only add schedules that do the same work as existing
    // ones.
    if (schedule.gemms || *rows != never_dense) schedule.dense_rows = *rows;
    if (std::ranges::find(found, *rows) == found.end()) found.push_back(*rows);
  };
  take(recipe.schedule.moe, recipe.parallel);
  for (train::StageConfig& stage : recipe.stages) take(stage.schedule.moe, stage.parallel);
  std::string line;
  for (const int64_t rows : found) {
    line += line.empty() ? "schedule.moe.dense_rows (rows per expert): " : "; ";
    line += rows == never_dense ? "dense GEMMs are not faster at the largest measured load" : base::cat(rows);
  }
  return line.empty() ? line : base::cat(line, " (measured in ", recipe.schedule.profile, ")");
}

}  // namespace hexad::plan
