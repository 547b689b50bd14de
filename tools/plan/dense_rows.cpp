#include "tools/plan/dense_rows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tools/plan/measured_kernels.h"

namespace hexad::plan {
namespace {

// Largest ratio of dense to grouped time that counts as faster. Smaller differences may be noise.
constexpr double faster = 0.98;

// Returns the grouped forward measurement of the same shape as `dense`; null if there is none.
const MeasuredProduct* grouped_twin(const Cluster& cluster, const MeasuredProduct& dense) {
  const auto twin = std::ranges::find_if(cluster.products, [&](const MeasuredProduct& p) {
    return p.element == dense.element && p.pass == dense.pass && p.experts == dense.experts &&
           p.inputs == dense.inputs && p.outputs == dense.outputs;
  });
  return twin == cluster.products.end() ? nullptr : &*twin;
}

// Returns the rows per expert from which on `dense` is faster than `grouped`, at sizes that were measured for both.
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
  std::optional<int64_t> rows;
  double nearest = 0;
  for (const MeasuredProduct& dense : cluster.dense_products) {
    const MeasuredProduct* grouped = grouped_twin(cluster, dense);
    if (dense.element != element || !grouped) continue;
    const double ratio = static_cast<double>(dense.inputs * dense.outputs) / static_cast<double>(inputs * outputs);
    const double distance = std::abs(std::log(ratio));
    if (!rows || distance < nearest) rows = turning_point(dense, *grouped), nearest = distance;
  }
  return rows;
}

std::string take_dense_rows(train::Recipe& recipe) {
  const auto is_open = [](const moe::MoeScheduleConfig& schedule) {
    return schedule.gemms == moe::Gemms::by_load && !schedule.dense_rows;
  };
  const bool any = is_open(recipe.schedule.moe) ||
                   std::ranges::any_of(recipe.stages, [&](const auto& s) { return is_open(s.schedule.moe); });
  if (!any || recipe.schedule.profile.empty() || recipe.model.moe.experts == 0) return {};
  const std::optional<Element> element = element_of(dtype_of(recipe.train.precision));
  if (!element) return {};
  const Cluster cluster = load_cluster(recipe.schedule.profile);
  std::vector<int64_t> found;  // without repetitions
  const auto take = [&](moe::MoeScheduleConfig& schedule, const train::ParallelConfig& parallel) {
    if (!is_open(schedule)) return;
    const int64_t width = recipe.model.moe.expert_hidden / parallel.etp.value_or(parallel.tp);
    const auto rows = measured_dense_rows(cluster, *element, recipe.model.hidden, std::max<int64_t>(1, width));
    if (!rows) return;
    schedule.dense_rows = *rows;
    if (std::ranges::find(found, *rows) == found.end()) found.push_back(*rows);
  };
  take(recipe.schedule.moe, recipe.parallel);
  for (train::StageConfig& stage : recipe.stages) take(stage.schedule.moe, stage.parallel);
  std::string line;
  for (const int64_t rows : found) {
    line +=
        base::cat(line.empty() ? "schedule.moe.dense_rows: " : "; ", "as measured in ", recipe.schedule.profile, ", ");
    line += rows == never_dense ? "no load favours dense GEMMs" : base::cat(rows);
  }
  return line;
}

}  // namespace hexad::plan
