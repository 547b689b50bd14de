#include "tools/plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/config/position_of.h"
#include "framework/config/typed_recipe.h"
#include "tools/plan/curves/measured_curve.h"
#include "tools/plan/dense_products.h"

namespace hexad::plan {
namespace {

using base::cat;
using base::enum_name;

void check_points(const Curve& points, const std::string& path, config::Problems& problems) {
  if (!problems.good({path})) return;
  if (points.is_constant())
    problems.add(path, "must be a list of points [[size, seconds], ...]");
  else if (!(points.points.front().x > 0))
    problems.add(path, fmt::format("must have sizes above 0, but the first is {:g}; remove this point",
                                   points.points.front().x));
}

// Plausible rates of measured work. A time outside these limits is probably in the wrong unit.
struct PlausibleRates {
  double least, most;
  std::string_view unit;
};
constexpr PlausibleRates plausible_bytes{1e4, 1e14, "bytes/s"}, plausible_flops{1e6, 1e17, "FLOP/s"};

// Checks that the times of a measured curve are in seconds, and that no time is below 1/largest_fall of the time of a
// smaller size. `work`(size) is the number of bytes or FLOPs of a size. Does nothing if the entry `entry`, which has
// the curve, has other problems.
void check_times(const Curve& curve, const std::string& entry, const PlausibleRates& plausible, const auto& work,
                 config::Problems& problems) {
  if (!problems.good({entry}) || curve.is_constant() || !(curve.points.front().x > 0)) return;
  const std::vector<Curve::Point>& points = curve.points;
  const auto key = [&](size_t i) { return cat(entry, ".points.", i, ".1"); };
  const auto rate = [&](size_t i) { return work(points[i].x) / points[i].y; };
  size_t fastest = 0, longest = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double seconds = points[i].y, before = points[longest].y;
    if (rate(i) > rate(fastest)) fastest = i;
    if (seconds > before) longest = i;
    if (largest_fall * seconds < before)
      problems.add(key(i),
                   fmt::format("must not fall below 1/{:g} of the time for a smaller size ({:g} s for size {:g}), "
                               "because noise of a measurement is smaller; nearest: {:.4g}",
                               largest_fall, before, points[longest].x, before / largest_fall));
  }
  const double seconds = points[fastest].y, size = points[fastest].x;
  if (const double most = work(size) / plausible.least; seconds > most)
    problems.add(key(fastest),
                 fmt::format("must be at most {:.4g} seconds for the size {:g}, which is a rate of {:g} {}; "
                             "nearest: {:.4g}; if the value is in microseconds, write {:g}",
                             most, size, plausible.least, plausible.unit, most, 1e-6 * seconds));
  if (const double least = work(size) / plausible.most; seconds < least)
    problems.add(key(fastest), fmt::format("must be at least {:.4g} seconds for the size {:g}, which is a rate of {:g} "
                                           "{}; nearest: {:.4g}",
                                           least, size, plausible.most, plausible.unit, least));
}

// Checks the curve of an entry whose sizes are bytes.
void check_bytes(const Curve& points, const std::string& path, config::Problems& problems) {
  check_points(points, path + ".points", problems);
  check_times(points, path, plausible_bytes, std::identity{}, problems);
}

// Largest plausible ratio of a link's rate to its rate for a larger message, among messages of at least `bytes` bytes.
// Bursts of a traffic shaper and caches make small messages fast, but not large messages.
struct LargestRatio {
  double bytes, ratio;
};
constexpr LargestRatio largest_ratios[] = {{0, 100}, {1 << 20, 8}};

// Checks that no rate of a link is larger than the rate for a larger message by more than the factors in
// largest_ratios. Does nothing if the entry `entry` has other problems.
void check_rates_of_link(const Curve& curve, const std::string& entry, config::Problems& problems) {
  for (const auto& [bytes, ratio] : largest_ratios) {
    if (!problems.good({entry})) return;
    double fastest = 0, at = 0;  // largest rate so far, and bytes of its message
    for (size_t i = 0; i < curve.points.size(); ++i) {
      const auto [size, seconds] = curve.points[i];
      if (size < bytes) continue;
      if (const double most = size / fastest * ratio; seconds > most)
        problems.add(cat(entry, ".points.", i, ".1"),
                     fmt::format("must be at most {:g} times the seconds that the rate of a smaller message gives "
                                 "({:.4g} bytes/s at {:g} bytes); nearest: {:.4g}",
                                 ratio, fastest, at, most));
      if (size / seconds > fastest) fastest = size / seconds, at = size;
    }
  }
}

void check_link(const MeasuredLink& link, const std::string& path, config::Problems& problems) {
  check_bytes(link.points, path, problems);
  check_rates_of_link(link.points, path, problems);
  if (!problems.good({path + ".ranks", path + ".nodes", path + ".group"})) return;
  if (link.ranks % link.nodes != 0)
    problems.add(path + ".ranks", cat("must be divisible by nodes (", link.nodes,
                                      "); nearest: ", config::nearest_multiples(link.ranks, link.nodes)));
  if (link.group == GroupKind::intra && link.nodes != 1)
    problems.add(path + ".nodes", "must be 1 for the group intra; nearest: 1");
  if (link.group == GroupKind::all && link.nodes == 1)
    problems.add(path + ".nodes", "must be at least 2 for the group all; ranks of one node are the group intra");
  if (link.group == GroupKind::inter && link.nodes != link.ranks)
    problems.add(path + ".nodes",
                 cat("must be equal to ranks (", link.ranks, ") for the group inter; nearest: ", link.ranks));
}

// Checks that the ranks of each measured group are in the measured cluster. Files without the section `measured`, which
// are written by hand, do not state the size of the cluster.
void check_group_sizes(const Cluster& cluster, config::Problems& problems) {
  const Origin& measured = cluster.measured;
  if (measured.nodes * measured.ranks_per_node == 1) return;
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    const MeasuredLink& link = cluster.links[i];
    const int64_t most = link.nodes * measured.ranks_per_node;
    if (link.nodes > measured.nodes)
      problems.add(cat("links.", i, ".nodes"),
                   cat("must be at most measured.nodes (", measured.nodes, "); nearest: ", measured.nodes));
    if (link.ranks > most)
      problems.add(cat("links.", i, ".ranks"),
                   cat("must be at most nodes x measured.ranks_per_node (", most, "); nearest: ", most));
  }
}

// Checks that no two entries of the section `section` have the same value of `what`, which `of` returns for an entry.
// Predictions would use only one of the two. `key` is the first key of an entry.
template <class Entry, class Of>
void check_no_repeats(const std::vector<Entry>& entries, const std::string& section, const std::string& key,
                      std::string_view what, const Of& of, config::Problems& problems) {
  std::map<decltype(of(entries.front())), size_t> first;
  for (size_t i = 0; i < entries.size(); ++i)
    if (const auto [at, is_new] = first.try_emplace(of(entries[i]), i); !is_new)
      problems.add(cat(section, ".", i, ".", key),
                   cat("must not repeat the ", what, " of ", section, ".", at->second, "; remove one of the two"));
}

void check_repeats(const Cluster& c, config::Problems& problems) {
  check_no_repeats(
      c.peaks, "peaks", "element", "element", [](const MeasuredPeak& p) { return p.element; }, problems);
  const auto link = [](const MeasuredLink& l) { return std::tuple(l.operation, l.group, l.ranks, l.nodes); };
  check_no_repeats(c.links, "links", "operation", "operation, group, ranks and nodes", link, problems);
  const auto product = [](const MeasuredProduct& p) {
    return std::tuple(p.element, p.pass, p.experts, p.inputs, p.outputs);
  };
  constexpr std::string_view sizes = "element, pass, experts, inputs and outputs";
  check_no_repeats(c.products, "products", "element", sizes, product, problems);
  check_no_repeats(c.dense_products, "dense_products", "element", sizes, product, problems);
  const auto attention = [](const MeasuredAttention& a) { return std::tuple(a.element, a.pass, a.heads, a.head_size); };
  check_no_repeats(c.attention, "attention", "element", "element, pass, heads and head_size", attention, problems);
  const auto kernels = [](const MeasuredKernels& k) { return std::tuple(k.of, k.element); };
  check_no_repeats(c.kernels, "kernels", "class", "class and element", kernels, problems);
  check_no_repeats(
      c.copies, "copies", "kind", "kind", [](const MeasuredCopy& copy) { return copy.kind; }, problems);
  const auto slowdown = [](const MeasuredSlowdown& s) {
    return std::tuple(s.of, std::set(s.beside.begin(), s.beside.end()));
  };
  check_no_repeats(c.slowdowns, "slowdowns", "of", "lanes", slowdown, problems);
  check_no_repeats(c.capped_slowdowns, "capped_slowdowns", "of", "lanes", slowdown, problems);
}

void check_product(const MeasuredProduct& product, const std::string& path, config::Problems& problems) {
  check_points(product.points, path + ".points", problems);
  const auto flops = [&](double rows) {
    return 2 * rows * static_cast<double>(product.inputs) * static_cast<double>(product.outputs);
  };
  check_times(product.points, path, plausible_flops, flops, problems);
}

void check_attention(const MeasuredAttention& attention, const std::string& path, config::Problems& problems) {
  check_points(attention.points, path + ".points", problems);
  const auto flops = [&](double positions) {
    return 2 * positions * positions * static_cast<double>(attention.heads) * static_cast<double>(attention.head_size);
  };
  check_times(attention.points, path, plausible_flops, flops, problems);
}

void check_slowdown(const MeasuredSlowdown& slowdown, const std::string& path, config::Problems& problems) {
  if (!problems.good({path + ".of", path + ".beside"})) return;
  std::vector<Lane> all = slowdown.beside;
  all.push_back(slowdown.of);
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end())
    problems.add(path + ".beside", cat("must not repeat a name or include ", enum_name(slowdown.of), " itself"));
}

void check_fewer_threads(const Cluster& cluster, config::Problems& problems) {
  int64_t before = 0;
  for (size_t i = 0; i < cluster.fewer_threads.size(); ++i) {
    const std::string path = cat("fewer_threads.", i, ".threads");
    if (!problems.good({path, "measured.threads"})) return;
    const int64_t threads = cluster.fewer_threads[i].threads;
    if (threads >= cluster.measured.threads)
      problems.add(path, cat("must be less than measured.threads (", cluster.measured.threads,
                             "); nearest: ", cluster.measured.threads - 1));
    if (threads <= before)
      problems.add(path, cat("must be above the previous number (", before, "); nearest: ", before + 1));
    before = threads;
  }
}

void check_bursts(const Cluster& cluster, config::Problems& problems) {
  for (size_t i = 0; i < cluster.bursts.size(); ++i) {
    const std::string path = cat("bursts.", i, ".group");
    if (!problems.good({path})) return;
    const GroupKind group = cluster.bursts[i].group;
    if (group == GroupKind::all) problems.add(path, "must be inter or intra, each of which has its own burst");
    const auto before = std::span(cluster.bursts).first(i);
    if (std::ranges::find(before, group, &LinkBurst::group) != before.end())
      problems.add(path, "must not repeat the group of an earlier burst");
  }
}

void check_operation(const Cluster& cluster, config::Problems& problems) {
  for (const auto& [key, value] : {std::pair("operation", cluster.operation), std::pair("handoff", cluster.handoff)})
    if (value && problems.good({key}) && *value > longest_operation)
      problems.add(key, cat("must be at most ", longest_operation, " s; nearest: ", longest_operation,
                            "; if the value is in microseconds, write ", *value, "e-6"));
}

void check_node_cores(const Origin& measured, config::Problems& problems) {
  if (!problems.good({"measured.node_cores", "measured.by", "measured.waiting"}) || measured.node_cores) return;
  if (measured.by != schedule::MeasuredBy::all_ranks)
    problems.add("measured.by", "must be all_ranks unless measured.node_cores is set");
  if (measured.waiting > 0) problems.add("measured.waiting", "must be 0 unless measured.node_cores is set");
}

// Checks that the measurements and the description in one file agree on the size of the cluster.
void check_same_size(const Cluster& cluster, config::Problems& problems) {
  if (cluster.links.empty() && cluster.products.empty() && cluster.attention.empty() && cluster.kernels.empty() &&
      cluster.copies.empty())
    return;
  const auto check = [&](const std::string& key, int64_t measured, int64_t described) {
    if (!problems.good({"machine." + key, "measured." + key}) || measured == described) return;
    problems.add("machine." + key, cat("must be equal to measured.", key, " (", measured, "); nearest: ", measured));
  };
  check("nodes", cluster.measured.nodes, cluster.machine->nodes);
  check("ranks_per_node", cluster.measured.ranks_per_node, cluster.machine->ranks_per_node);
}

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

// Extends `curve` as steady_curve() does.
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
// measured times at each number of rows by the size of the weight. The reason is that a product with few rows takes as
// long as reading the weight.
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

// Returns the first product of the shape whose times rates_of() takes. Throws Error(usage) if there is none.
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
  curves.fill(curve_of(nearest, wanted > 0 ? wanted : area(nearest)));  // for the passes of unmeasured_passes()
  for (const MeasuredProduct& p : cluster.products)
    if (have_same_shape(p, nearest)) curves[base::ordinal(p.pass)] = curve_of(p, wanted > 0 ? wanted : area(p));
  return curves;
}

// Returns the curves of products with one kernel call for each expert; empty curves if the cluster has no such
// measurements. These measurements are of forward products only. For the other passes, the same ratio to grouped
// products is assumed.
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

// Returns the file with its overrides. Messages show the overrides as they are written on the command line.
config::Document document_of(const std::string& path, const std::vector<std::string>& overrides) {
  config::Document document = config::load(path);
  for (const std::string& text : overrides) config::override_key(document, text, "cluster.");
  return document;
}

}  // namespace

Cluster load_cluster(const std::string& path, const std::vector<std::string>& overrides) {
  config::Problems problems;
  Cluster cluster = config::read<Cluster>(document_of(path, overrides), problems);
  for (size_t i = 0; i < cluster.links.size(); ++i) check_link(cluster.links[i], cat("links.", i), problems);
  for (size_t i = 0; i < cluster.products.size(); ++i)
    check_product(cluster.products[i], cat("products.", i), problems);
  for (size_t i = 0; i < cluster.dense_products.size(); ++i)
    check_product(cluster.dense_products[i], cat("dense_products.", i), problems);
  for (size_t i = 0; i < cluster.attention.size(); ++i)
    check_attention(cluster.attention[i], cat("attention.", i), problems);
  for (size_t i = 0; i < cluster.kernels.size(); ++i)
    check_bytes(cluster.kernels[i].points, cat("kernels.", i), problems);
  for (size_t i = 0; i < cluster.copies.size(); ++i) check_bytes(cluster.copies[i].points, cat("copies.", i), problems);
  for (size_t i = 0; i < cluster.slowdowns.size(); ++i)
    check_slowdown(cluster.slowdowns[i], cat("slowdowns.", i), problems);
  for (size_t i = 0; i < cluster.capped_slowdowns.size(); ++i)
    check_slowdown(cluster.capped_slowdowns[i], cat("capped_slowdowns.", i), problems);
  check_fewer_threads(cluster, problems);
  check_bursts(cluster, problems);
  check_operation(cluster, problems);
  check_node_cores(cluster.measured, problems);
  if (cluster.machine) {
    check_machine(*cluster.machine, "machine", problems);
    check_same_size(cluster, problems);
  }
  if (!problems.any()) {  // other problems, such as a misspelt key, may look like repeats
    check_group_sizes(cluster, problems);
    check_repeats(cluster, problems);
  }
  problems.throw_if_any();
  return cluster;
}

std::string position_in_cluster(const std::string& path, const std::vector<std::string>& overrides,
                                std::string_view key) {
  const std::string position = config::position_of(document_of(path, overrides), key);
  return position.empty() ? path : position;
}

std::string to_yaml(const Cluster& cluster) {
  std::string text = config::write(cluster);
  if (!cluster.machine) text.erase(text.rfind("machine: none\n"));  // measured profiles omit the key
  return text;
}

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
    if (link)
      rates.links.push_back(
          {kind_of(operation), group.name, static_cast<int>(group.ranks), group.nodes > 1, steady_curve(link->points)});
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
