#include "tools/plan/grouped_products.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

double weight_of(const MeasuredProduct& p) { return static_cast<double>(p.inputs) * static_cast<double>(p.outputs); }

// Returns the curve of seconds over rows for the fraction `share` of the experts of `p`. Multiplies the seconds by
// `scale`.
schedule::TimeCurve curve_of(const MeasuredProduct& p, double scale, double share) {
  schedule::TimeCurve curve;
  for (const auto& [rows, seconds] : p.points.points) curve.points.push_back({rows * share, seconds * share * scale});
  return curve;
}

}  // namespace

GroupedProducts::GroupedProducts(const Cluster& cluster, Element element, double weight) {
  const auto fits = [&](const MeasuredProduct& p) { return p.element == element && p.pass == GemmPass::forward; };
  const auto distance = [&](const MeasuredProduct& p) { return std::abs(std::log2(weight_of(p) / weight)); };
  const MeasuredProduct* nearest = nullptr;
  for (const MeasuredProduct& p : cluster.products)
    if (fits(p) && (!nearest || distance(p) < distance(*nearest))) nearest = &p;
  if (!nearest) return;
  const auto same_shape = [&](const MeasuredProduct& p) {
    return fits(p) && p.inputs == nearest->inputs && p.outputs == nearest->outputs;
  };
  const double scale = weight / weight_of(*nearest);
  for (const MeasuredProduct& p : cluster.products)
    if (same_shape(p)) add(p.experts, curve_of(p, scale, 1));
  for (const MeasuredProduct& p : cluster.dense_products)
    if (same_shape(p) && !curves_.contains(1)) add(1, curve_of(p, scale, 1 / static_cast<double>(p.experts)));
}

double GroupedProducts::seconds(double rows, double experts) const {
  base::require(curves_.size() > 1, "[GroupedProducts] ", curves_.size(),
                " group sizes were measured, expected at least 2");
  const auto at = [&](auto group) {
    const auto size = static_cast<double>(group->first);
    return group->second.seconds(rows / experts * size);
  };
  const auto first = curves_.begin(), last = std::prev(curves_.end());
  if (experts <= static_cast<double>(first->first)) return at(first) * experts / static_cast<double>(first->first);
  auto right = std::ranges::find_if(curves_, [&](const auto& c) { return static_cast<double>(c.first) >= experts; });
  if (right == curves_.end()) right = last;
  const auto left = std::prev(right);
  const auto from = static_cast<double>(left->first), to = static_cast<double>(right->first);
  const double linear = std::lerp(at(left), at(right), (experts - from) / (to - from));
  return experts > to ? std::max(linear, at(right)) : linear;
}

}  // namespace hexad::plan
