#include "tools/plan/measured_prices.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "tools/plan/cluster_error.h"

namespace hexad::plan {

using base::Dtype;
using schedule::TimeCurve;

namespace {

// Ratio of attention's rate to the best rate of the measured products with the largest weight. The ratio is assumed if
// attention was not measured.
constexpr double attention_share = 0.5;

}  // namespace

MeasuredPrices::MeasuredPrices(const Cluster& cluster) : cluster_(cluster) {
  for (const MeasuredProduct& p : cluster_.products) {
    const auto experts = static_cast<double>(p.experts);
    std::vector<Curve::Point> each;
    for (const auto& [rows, seconds] : p.points.points) each.push_back({rows / experts, seconds / experts});
    // A curve with a single point has no slope for a continuation.
    const TimeCurve one = each.size() > 1 ? steady_curve(Curve(each)) : TimeCurve{{{each[0].x, each[0].y}}};
    products_.push_back({p, static_cast<double>(p.inputs) * static_cast<double>(p.outputs), one});
  }
  for (const MeasuredLink& link : cluster_.links) links_.push_back(steady_curve(link.points));
  for (const MeasuredCopy& copy : cluster_.copies)
    if (!copies_[base::ordinal(copy.kind)]) copies_[base::ordinal(copy.kind)] = steady_curve(copy.points);
  for (const auto& [element, name] : enum_names(Element{}))
    for (const GemmPass pass : {GemmPass::forward, GemmPass::input_gradient})
      rates_[base::ordinal(element)][base::ordinal(pass)] = best_rate(element, pass);
}

bool MeasuredPrices::has_products(Dtype dtype) const {
  const auto element = element_of(dtype);
  return element && std::ranges::any_of(products_, [&](const Timed& p) { return p.of.element == *element; });
}

bool MeasuredPrices::has_link(Collective operation, const GroupPlace& place) const {
  return nearest_link(cluster_, operation, {"", place.ranks, place.nodes}) != nullptr;
}

double MeasuredPrices::peak(Dtype dtype) const {
  const std::optional<Element> element = element_of(dtype);
  double rate = 0;
  for (const MeasuredPeak& p : cluster_.peaks)
    if (p.element == element) rate = std::max(rate, p.flops_per_second);
  for (const Timed& p : products_)
    if (p.of.element == element)
      for (const auto& [rows, seconds] : p.one.points) rate = std::max(rate, 2 * rows * p.area / seconds);
  return rate;
}

double MeasuredPrices::product(const Product& p) const {
  const Timed& timed = *nearest(*element_of(p.dtype), p.pass, p.inputs * p.outputs, p.groups <= 1);
  return p.groups * timed.one.seconds(p.rows / p.groups) * (p.inputs * p.outputs / timed.area);
}

double MeasuredPrices::attention(const Attention& a) const {
  const GemmPass pass = a.pass == AttentionPass::forward ? GemmPass::forward : GemmPass::input_gradient;
  return a.flops / (attention_share * rates_[base::ordinal(*element_of(a.dtype))][base::ordinal(pass)]);
}

double MeasuredPrices::collective(Collective operation, const GroupPlace& place, double bytes) const {
  const GroupShape group{"", place.ranks, place.nodes};
  const MeasuredLink* link = nearest_link(cluster_, operation, group);
  if (!link)
    fail_cluster("links", "the cluster has no measured ", base::enum_name(operation), " for a group of ", place.ranks,
                 " ranks on ", place.nodes, place.nodes == 1 ? " node" : " nodes",
                 "; to measure it, run hexad profile on such ranks");
  return links_[link - cluster_.links.data()].seconds(bytes * size_factor(*link, group));
}

bool MeasuredPrices::has_single_products(Element element) const {
  return std::ranges::any_of(products_, [&](const Timed& p) { return p.of.element == element && p.of.experts == 1; });
}

bool MeasuredPrices::lacks_passes(Element element) const {
  return std::ranges::any_of(products_, [&](const Timed& p) {
    return p.of.element == element && std::ranges::any_of(base::enum_names(GemmPass{}), [&](const auto& pass) {
             return nearest(element, pass.first, p.area, p.of.experts == 1)->of.pass != pass.first;
           });
  });
}

const MeasuredPrices::Timed* MeasuredPrices::nearest(Element element, GemmPass pass, double area, bool single) const {
  const Timed* best = nullptr;
  std::tuple<bool, double, bool> least;
  for (const Timed& p : products_) {
    if (p.of.element != element) continue;
    const std::tuple cost{(p.of.experts == 1) != single, std::abs(std::log2(p.area / area)), p.of.pass != pass};
    if (!best || cost < least) best = &p, least = cost;
  }
  return best;
}

double MeasuredPrices::best_rate(Element element, GemmPass pass) const {
  double largest = 0, rate = 0;
  for (const Timed& p : products_)
    if (p.of.element == element) largest = std::max(largest, p.area);
  for (const bool same_pass : {true, false}) {
    for (const Timed& p : products_)
      if (p.of.element == element && p.area == largest && (p.of.pass == pass || !same_pass))
        for (const auto& [rows, seconds] : p.one.points) rate = std::max(rate, 2 * rows * p.area / seconds);
    if (rate > 0) break;
  }
  return rate;
}

}  // namespace hexad::plan
