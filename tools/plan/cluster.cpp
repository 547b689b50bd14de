// Reading, checking and writing of cluster files.
#include "tools/plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/config/position_of.h"
#include "framework/config/typed_recipe.h"
#include "tools/plan/legal_number.h"

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

// These functions return `limit` as a text for messages, rounded to a legal number.
std::string legal_maximum(double limit) {
  return legal_number(limit, [&](double number) { return number <= limit; });
}
std::string legal_minimum(double limit) {
  return legal_number(limit, [&](double number) { return number >= limit; });
}

// Plausible rates of measured work. A time that gives a rate outside these limits is probably in the wrong unit.
struct PlausibleRates {
  double least, most;
  std::string_view unit;
};
constexpr PlausibleRates plausible_bytes{1e4, 1e14, "bytes/s"}, plausible_flops{1e6, 1e17, "FLOP/s"};

// Checks that the times of a measured curve are plausible as seconds. Also checks that no time is below 1/largest_fall
// of the time of a smaller size. `work`(size) is the number of bytes or FLOPs of a size. Does nothing if the entry
// `entry`, which has the curve, has other problems.
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
    const auto falls = [&](double time) { return largest_fall * time < before; };
    if (falls(seconds)) {
      const std::string least = legal_number(before / largest_fall, std::not_fn(falls));
      problems.add(key(i),
                   fmt::format("must be at least {0} seconds, 1/{1:g} of the {2:g} seconds for the smaller size {3:g}, "
                               "because the noise of a measurement is smaller; nearest: {0}",
                               least, largest_fall, before, points[longest].x));
    }
  }
  const double seconds = points[fastest].y, size = points[fastest].x;
  if (const double most = work(size) / plausible.least; seconds > most)
    problems.add(key(fastest),
                 fmt::format("must be at most {0} seconds for the size {1:g}, which is a rate of {2:g} {3}; "
                             "nearest: {0}; if the value is in microseconds, write {4:g}",
                             legal_maximum(most), size, plausible.least, plausible.unit, 1e-6 * seconds));
  if (const double least = work(size) / plausible.most; seconds < least)
    problems.add(key(fastest), fmt::format("must be at least {0} seconds for the size {1:g}, which is a rate of {2:g} "
                                           "{3}; nearest: {0}",
                                           legal_minimum(least), size, plausible.most, plausible.unit));
}

// Checks the curve of an entry whose sizes are bytes.
void check_bytes(const Curve& points, const std::string& path, config::Problems& problems) {
  check_points(points, path + ".points", problems);
  check_times(points, path, plausible_bytes, std::identity{}, problems);
}

// Largest plausible ratio of a link's rate to its rate for a larger message, among messages of at least `bytes` bytes.
// Caches and the bursts of a traffic shaper make small messages fast, but not large messages.
struct LargestRatio {
  double bytes, ratio;
};
constexpr LargestRatio largest_ratios[] = {{0, 100}, {1 << 20, 8}};

// Compares the rates of a link with its rates for larger messages. Checks that the ratios are at most the ratios in
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
                                 "({:.4g} bytes/s at {:g} bytes); nearest: {}",
                                 ratio, fastest, at, legal_maximum(most)));
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
    problems.add(path + ".nodes", "must be at least 2 for the group all; for ranks of one node, set the group intra");
  if (link.group == GroupKind::inter && link.nodes != link.ranks)
    problems.add(path + ".nodes",
                 cat("must be equal to ranks (", link.ranks, ") for the group inter; nearest: ", link.ranks));
}

// Checks that the ranks of each measured group are in the measured cluster. Skips files without the section `measured`
// (written by hand), because such files do not state the size of the cluster.
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
// Predictions would use only one of two such entries. `key` is the first key of an entry.
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
    problems.add(path + ".beside",
                 cat("must list each lane once, and must not list ", enum_name(slowdown.of), ", which is `of`"));
}

void check_fewer_threads(const Cluster& cluster, config::Problems& problems) {
  int64_t before = 0;
  for (size_t i = 0; i < cluster.fewer_threads.size(); ++i) {
    const std::string path = cat("fewer_threads.", i, ".threads");
    if (!problems.good({path, "measured.threads"})) return;
    const int64_t threads = cluster.fewer_threads[i].threads;
    const int64_t most = cluster.measured.threads - 1;
    if (before >= most)
      problems.add(path, cat("must be above ", before, " and less than measured.threads (", most + 1,
                             "), which no number is; remove this entry"));
    else if (threads > most)
      problems.add(path, cat("must be less than measured.threads (", most + 1, "); nearest: ", most));
    else if (threads <= before)
      problems.add(path, cat("must be above the previous number (", before, "); nearest: ", before + 1));
    before = threads;
  }
}

void check_bursts(const Cluster& cluster, config::Problems& problems) {
  for (size_t i = 0; i < cluster.bursts.size(); ++i) {
    const std::string path = cat("bursts.", i, ".group");
    if (!problems.good({path})) return;
    const GroupKind group = cluster.bursts[i].group;
    if (group == GroupKind::all) problems.add(path, "must be inter or intra; to set both, list two bursts");
    const auto before = std::span(cluster.bursts).first(i);
    if (std::ranges::find(before, group, &LinkBurst::group) != before.end())
      problems.add(path, "must not repeat the group of an earlier burst; remove one of the two");
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

// Returns the document in the file `path`, with `overrides` applied. Messages show the overrides as they are written on
// the command line.
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

}  // namespace hexad::plan
