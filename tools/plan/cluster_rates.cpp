// Rates for the simulator (schedule::Rates) from the measurements of a cluster, and a cluster of default rates.
#include "tools/plan/cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "tools/plan/curves/measured_curve.h"
#include "tools/plan/dense_products.h"

namespace hexad::plan {
namespace {

using base::enum_name;

// Returns 0 if `measured` is the wanted kind of group, 1 if it is an acceptable substitute, and none otherwise.
std::optional<int> strangeness(GroupKind measured, const GroupShape& wanted) {
  if (wanted.nodes == 1) return measured == GroupKind::intra ? std::optional(0) : std::nullopt;
  if (measured == GroupKind::intra) return {};
  return (wanted.nodes == wanted.ranks) == (measured == GroupKind::inter) ? 0 : 1;
}

schedule::TimeCurve curve_of(const Curve& points) {
  schedule::TimeCurve curve;
  for (const auto& [size, seconds] : points.points) curve.points.push_back({size, seconds});
  return curve;
}

// Extends `curve` like steady_curve().
schedule::TimeCurve steady(schedule::TimeCurve curve) {
  const schedule::TimeCurve::Point last = curve.points.back();
  const auto rate = [](const schedule::TimeCurve::Point& p) { return p.size / p.seconds; };
  if (curve.points.size() < 2) return curve;
  const schedule::TimeCurve::Point before = curve.points[curve.points.size() - 2];
  if (rate(last) < rate(before) || last.seconds <= before.seconds)
    curve.points.push_back({2 * last.size, 2 * last.seconds});
  return curve;
}

double area(const MeasuredProduct& p) { return static_cast<double>(p.inputs) * static_cast<double>(p.outputs); }

// Returns the curve of seconds over FLOPs of one expert's product with a weight of `wanted` elements. Scales the
// measured times at each number of rows by the size of the weight, because a product with few rows takes as long as
// reading the weight.
schedule::TimeCurve curve_of(const MeasuredProduct& p, double wanted) {
  const auto experts = static_cast<double>(p.experts);
  schedule::TimeCurve curve;
  for (const auto& [rows, seconds] : p.points.points)
    curve.points.push_back({rows / experts * 2 * wanted, seconds / experts * wanted / area(p)});
  return steady(std::move(curve));
}

double wanted_area(const RatesQuery& query) {
  return static_cast<double>(query.inputs) * static_cast<double>(query.outputs);
}

// Returns the first measured product of the shape that rates_of() uses. Throws Error(usage) if there is none.
const MeasuredProduct& nearest_product(const Cluster& cluster, const RatesQuery& query) {
  const double wanted = wanted_area(query);
  const auto better = [&](const MeasuredProduct& a, const MeasuredProduct& b) {
    return wanted > 0 ? octaves(area(a), wanted) < octaves(area(b), wanted) : area(a) > area(b);
  };
  const MeasuredProduct* best = nullptr;
  for (const MeasuredProduct& p : cluster.products)
    if (p.element == query.element && (!best || better(p, *best))) best = &p;
  if (!best)
    base::fail(base::ExitCode::usage, "the cluster has no measured products of ", enum_name(query.element),
               "; to measure them, run hexad profile");
  return *best;
}

bool have_same_shape(const MeasuredProduct& a, const MeasuredProduct& b) {
  return a.element == b.element && a.experts == b.experts && a.inputs == b.inputs && a.outputs == b.outputs;
}

schedule::ByGemmPass<schedule::TimeCurve> compute_curves(const Cluster& cluster, const RatesQuery& query) {
  const double wanted = wanted_area(query);
  const MeasuredProduct& nearest = nearest_product(cluster, query);
  schedule::ByGemmPass<schedule::TimeCurve> curves;
  curves.fill(curve_of(nearest, wanted > 0 ? wanted : area(nearest)));  // default for the passes of unmeasured_passes()
  for (const MeasuredProduct& p : cluster.products)
    if (have_same_shape(p, nearest)) curves[base::ordinal(p.pass)] = curve_of(p, wanted > 0 ? wanted : area(p));
  return curves;
}

// Returns the curves of products with one kernel call for each expert; empty curves if the cluster has no such
// measurements. These measurements are of forward products only. Assumes that the ratio of these times to the times of
// grouped products is the same in all passes.
schedule::ByGemmPass<schedule::TimeCurve> dense_curves(const Cluster& cluster, const RatesQuery& query,
                                                       const schedule::ByGemmPass<schedule::TimeCurve>& compute) {
  schedule::ByGemmPass<schedule::TimeCurve> curves;
  const double wanted = wanted_area(query);
  const DenseAndGrouped pair = nearest_dense(cluster, query.element, wanted);
  if (!pair.dense) return curves;
  const double weight = wanted > 0 ? wanted : area(*pair.dense);
  const schedule::TimeCurve dense = curve_of(*pair.dense, weight), grouped = curve_of(*pair.grouped, weight);
  for (size_t pass = 0; pass < curves.size(); ++pass)
    for (const auto& [size, seconds] : compute[pass].points)
      curves[pass].points.push_back({size, seconds * dense.seconds(size) / grouped.seconds(size)});
  return curves;
}

schedule::TaskKind kind_of(Collective c) {
  switch (c) {
    case Collective::all_to_all:
      return schedule::TaskKind::all_to_all;
    case Collective::all_gather:
      return schedule::TaskKind::all_gather;
    case Collective::reduce_scatter:
      return schedule::TaskKind::reduce_scatter;
    case Collective::all_reduce:
      return schedule::TaskKind::all_reduce;
    case Collective::send:
      return schedule::TaskKind::send;
  }
  base::fail_invariant(base::cat("[cluster] the collective is ", static_cast<int>(c), "; expected a Collective"));
}

// Samples a curve at sizes from 4 KiB to 16 MiB. Each size is four times the previous size.
Curve sampled(const schedule::TimeCurve& curve) {
  std::vector<Curve::Point> points;
  for (double size = 4096; size <= 16 << 20; size *= 4) points.push_back({size, curve.seconds(size)});
  return points;
}

}  // namespace

std::optional<schedule::SharedCores> shared_cores(const Origin& measured, int64_t ranks_per_node) {
  if (!measured.node_cores) return {};
  return schedule::SharedCores{.cores = static_cast<double>(*measured.node_cores),
                               .ranks = static_cast<int>(ranks_per_node > 0 ? ranks_per_node : measured.ranks_per_node),
                               .measured_ranks = static_cast<int>(measured.ranks_per_node),
                               .threads = static_cast<int>(measured.threads),
                               .waiting = measured.waiting,
                               .by = measured.by};
}

std::vector<double> speeds_of_threads(int64_t threads, std::span<const MeasuredThreads> fewer) {
  std::vector<double> speeds;
  MeasuredThreads left{.threads = 0, .speed = 0};
  size_t next = 0;
  for (int64_t n = 1; n <= threads; ++n) {
    while (next < fewer.size() && fewer[next].threads < n) left = fewer[next++];
    const MeasuredThreads right = next < fewer.size() ? fewer[next] : MeasuredThreads{.threads = threads, .speed = 1};
    const double share = static_cast<double>(n - left.threads) / static_cast<double>(right.threads - left.threads);
    speeds.push_back(std::lerp(left.speed, right.speed, share));
  }
  return speeds;
}

schedule::TimeCurve steady_curve(const Curve& points) { return steady(curve_of(points)); }

Cluster default_cluster(int64_t nodes, int64_t ranks_per_node) {
  const schedule::Rates rates = schedule::Rates::defaults();
  Cluster cluster;
  cluster.measured.date = "assumed";
  cluster.measured.nodes = nodes, cluster.measured.ranks_per_node = ranks_per_node;
  const Curve within = sampled(rates.other_links->within_node), between = sampled(rates.other_links->between_nodes);
  for (const auto& [operation, name] : enum_names(Collective{})) {
    if (ranks_per_node > 1) cluster.links.push_back({operation, GroupKind::intra, ranks_per_node, 1, within});
    if (nodes > 1) cluster.links.push_back({operation, GroupKind::inter, nodes, nodes, between});
    if (nodes > 1 && ranks_per_node > 1)
      cluster.links.push_back({operation, GroupKind::all, nodes * ranks_per_node, nodes, between});
  }
  constexpr int64_t width = 1024;
  for (Element element : {Element::f32, Element::bf16})
    for (const auto& [pass, name] : enum_names(GemmPass{})) {
      std::vector<Curve::Point> points;
      for (int64_t rows = 16; rows <= 4096; rows *= 4)
        points.push_back({static_cast<double>(rows),
                          rates.compute[base::ordinal(pass)].seconds(2.0 * static_cast<double>(rows * width * width))});
      cluster.products.push_back({element, pass, 1, width, width, points});
    }
  for (const auto& [kind, name] : enum_names(CopyKind{})) cluster.copies.push_back({kind, sampled(rates.copy)});
  return cluster;
}

const MeasuredLink* nearest_link(const Cluster& cluster, Collective operation, const GroupShape& group) {
  const MeasuredLink* best = nullptr;
  std::array<double, 3> least{};  // strangeness, octaves between the numbers of ranks, negated number of ranks
  for (const MeasuredLink& link : cluster.links) {
    const auto strange = strangeness(link.group, group);
    if (link.operation != operation || !strange) continue;
    const std::array<double, 3> cost{static_cast<double>(*strange),
                                     octaves(static_cast<double>(link.ranks), static_cast<double>(group.ranks)),
                                     -static_cast<double>(link.ranks)};
    if (!best || cost < least) best = &link, least = cost;
  }
  return best;
}

double size_factor(const MeasuredLink& link, const GroupShape& group) {
  if (link.operation != Collective::all_to_all || link.nodes < 2 || group.nodes < 2) return 1;
  const auto share = [](int64_t ranks, int64_t nodes) {
    const auto n = static_cast<double>(ranks);
    return (n - n / static_cast<double>(nodes)) / (n - 1);
  };
  return share(group.ranks, group.nodes) / share(link.ranks, link.nodes);
}

std::vector<GemmPass> unmeasured_passes(const Cluster& cluster, const RatesQuery& query) {
  const MeasuredProduct& nearest = nearest_product(cluster, query);
  std::vector<GemmPass> missing;
  for (const auto& [pass, name] : enum_names(GemmPass{}))
    if (std::ranges::none_of(cluster.products,
                             [&](const auto& p) { return p.pass == pass && have_same_shape(p, nearest); }))
      missing.push_back(pass);
  return missing;
}

schedule::Rates rates_of(const Cluster& cluster, const RatesQuery& query) {
  schedule::Rates rates{.compute = compute_curves(cluster, query), .copy = {}, .links = {}};
  rates.dense = dense_curves(cluster, query, rates.compute);
  const auto copy = std::find_if(cluster.copies.begin(), cluster.copies.end(),
                                 [&](const MeasuredCopy& c) { return c.kind == query.copy; });
  if (copy == cluster.copies.end())
    base::fail(base::ExitCode::usage, "the cluster has no measured copies of kind ", enum_name(query.copy),
               "; to measure them, run hexad profile");
  rates.copy = curve_of(copy->points);
  const auto add_link = [&](const GroupShape& group, Collective operation, bool required) {
    const MeasuredLink* link = nearest_link(cluster, operation, group);
    if (!link && required)
      base::fail(base::ExitCode::usage, "the cluster has no measured ", enum_name(operation), " for group ", group.name,
                 " of ", base::counted(group.ranks, "rank"), " on ", base::counted(group.nodes, "node"),
                 "; to measure it, run hexad profile on such ranks");
    if (!link) return;
    schedule::TimeCurve curve = steady_curve(link->points);
    for (schedule::TimeCurve::Point& point : curve.points) point.size /= size_factor(*link, group);
    rates.links.push_back(
        {kind_of(operation), group.name, static_cast<int>(group.ranks), group.nodes > 1, std::move(curve)});
  };
  const auto add_links = [&](const std::vector<GroupShape>& groups, bool required) {
    for (const GroupShape& group : groups) {
      if (group.ranks < 2) continue;  // a group of one rank sends nothing
      for (const auto& [operation, name] : enum_names(Collective{})) add_link(group, operation, required);
    }
  };
  add_links(query.groups, true);
  add_links(query.further_groups, false);
  for (const bool capped : {false, true})
    for (const MeasuredSlowdown& s : capped ? cluster.capped_slowdowns : cluster.slowdowns) {
      schedule::LaneSet beside;
      for (Lane lane : s.beside) beside.add(lane);
      rates.slowdowns.push_back({s.of, beside, std::min(1.0, s.speed), capped});
    }
  rates.speed_of_threads = speeds_of_threads(cluster.measured.threads, cluster.fewer_threads);
  rates.cores = shared_cores(cluster.measured, query.ranks_per_node);
  for (const LinkBurst& burst : cluster.bursts)
    (burst.group == GroupKind::inter ? rates.bursts.between_nodes : rates.bursts.within_node) = burst.seconds;
  rates.check();
  return rates;
}

}  // namespace hexad::plan
