#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "tools/plan/curves/least_squares.h"
#include "tools/plan/measured_kernels.h"
#include "tools/plan/profile/profile.h"

namespace hexad::plan {
namespace {

using base::enum_name;
using base::human_quantity;

// Returns the speed at `size`. Interpolates the time linearly between two measured sizes. Outside the measured range,
// returns the speed at the nearest measured size. Returns "-" if that size is not between 0.75 and 1.5 times `size`.
// `per_size` is the work per unit of size, such as FLOPs per row.
std::string speed_at(const Curve& curve, double size, double per_size, std::string_view unit) {
  const auto& points = curve.points;
  const auto speed = [&](double x, double seconds) { return human_quantity(x * per_size / seconds, unit); };
  const auto above = std::ranges::lower_bound(points, size, {}, [](const auto& p) { return p.x; });
  if (above == points.begin() || above == points.end()) {
    const auto& [x, seconds] = above == points.begin() ? points.front() : points.back();
    return x > 0.75 * size && x < 1.5 * size ? speed(x, seconds) : "-";
  }
  const auto& below = *std::prev(above);
  const double share = (size - below.x) / (above->x - below.x);
  return speed(size, below.y + share * (above->y - below.y));
}

std::string links_table(const std::vector<MeasuredLink>& links) {
  std::string text = fmt::format("\n{:<16}{:<8}{:>5}{:>13}{:>13}{:>13}{:>13}\n", "links", "group", "ranks", "4 KiB",
                                 "64 KiB", "1 MiB", "16 MiB");
  for (const MeasuredLink& l : links) {
    text += fmt::format("{:<16}{:<8}{:>5}{:>13}", enum_name(l.operation), enum_name(l.group), l.ranks,
                        fmt::format("{:.0f} us", 1e6 * l.points.points.front().y));
    for (double size : {65536.0, 1048576.0, 16777216.0})
      text += fmt::format("{:>13}", speed_at(l.points, size, 1, "B/s"));
    text += '\n';
  }
  return text;
}

std::string product_name(const MeasuredProduct& p) {
  return fmt::format("{} {}, {} x {} x {}", enum_name(p.element), enum_name(p.pass), p.experts, p.inputs, p.outputs);
}

std::string products_table(const std::vector<MeasuredProduct>& products) {
  std::string text = fmt::format("\n{:<38}{:>16}{:>16}{:>16}\n", "products, rows", 64, 512, 4096);
  for (const MeasuredProduct& p : products) {
    text += fmt::format("{:<38}", product_name(p));
    const double flops = 2.0 * static_cast<double>(p.inputs * p.outputs);
    for (double rows : {64.0, 512.0, 4096.0}) text += fmt::format("{:>16}", speed_at(p.points, rows, flops, "FLOP/s"));
    text += '\n';
  }
  return text;
}

std::string attention_name(const MeasuredAttention& a) {
  return fmt::format("{} {}, {} heads of {}", enum_name(a.element), enum_name(a.pass), a.heads, a.head_size);
}

std::string attention_table(const std::vector<MeasuredAttention>& attention) {
  std::string text = fmt::format("\n{:<38}{:>16}{:>16}{:>16}\n", "attention, positions", 128, 512, 2048);
  for (const MeasuredAttention& a : attention) {
    text += fmt::format("{:<38}", attention_name(a));
    for (double positions : {128.0, 512.0, 2048.0}) {
      const double flops = attention_flops(a.pass, static_cast<double>(a.heads * a.head_size), positions);
      text += fmt::format("{:>16}", speed_at(a.points, positions, flops / positions, "FLOP/s"));
    }
    text += '\n';
  }
  return text;
}

std::string kernels_name(const MeasuredKernels& k) {
  return fmt::format("{} {}", enum_name(k.element), enum_name(k.of));
}

std::string kernels_table(const std::vector<MeasuredKernels>& kernels) {
  std::string text = fmt::format("\n{:<16}{:>13}{:>13}{:>13}\n", "other kernels", "64 KiB", "1 MiB", "16 MiB");
  for (const MeasuredKernels& k : kernels) {
    text += fmt::format("{:<16}", kernels_name(k));
    for (double size : {65536.0, 1048576.0, 16777216.0})
      text += fmt::format("{:>13}", speed_at(k.points, size, 1, "B/s"));
    text += '\n';
  }
  return text;
}

std::string copies_table(const std::vector<MeasuredCopy>& copies) {
  std::string text = fmt::format("\n{:<16}{:>13}{:>13}{:>13}\n", "copies", "64 KiB", "1 MiB", "16 MiB");
  for (const MeasuredCopy& c : copies) {
    text += fmt::format("{:<16}", enum_name(c.kind));
    for (double size : {65536.0, 1048576.0, 16777216.0})
      text += fmt::format("{:>13}", speed_at(c.points, size, 1, "B/s"));
    text += '\n';
  }
  return text;
}

// Fits the line start + size / rate to the points of a curve. Returns a table row with this line and the largest error
// of the fit; empty for a constant curve. `per_size` is the work per unit of size, and `unit` is the unit of the
// printed rate. `sizes` is the unit of the sizes; empty for bytes.
std::string fitted_row(const std::string& name, const Curve& curve, double per_size, std::string_view unit,
                       std::string_view sizes) {
  if (curve.is_constant()) return {};
  const Fit fit = fit_alpha_beta(curve.points, Least::relative_residuals);
  const double size = curve.points[fit.worst].x;
  std::string worst = "two points";  // no error, because any two points are on a line
  if (curve.points.size() > 2)
    worst = fmt::format("{:.0f}% at {}", 100 * fit.worst_relative_error,
                        sizes.empty() ? base::human_bytes(size) : fmt::format("{:g} {}", size, sizes));
  return fmt::format("{:<38}{:>12}{:>16}{:>22}\n", name, fmt::format("{:.1f} us", 1e6 * fit.line.alpha),
                     fit.line.beta > 0 ? human_quantity(per_size / fit.line.beta, unit) : "-", worst);
}

// Returns a table of fitted lines. The start is alpha in the formulas of papers, and the rate is the inverse of beta.
// Predictions of schedules use the measured points instead.
std::string fits_table(const Cluster& cluster) {
  std::string rows;
  for (const MeasuredLink& l : cluster.links)
    rows += fitted_row(fmt::format("{} {}, {} ranks", enum_name(l.operation), enum_name(l.group), l.ranks), l.points, 1,
                       "B/s", "");
  for (const MeasuredProduct& p : cluster.products)
    rows += fitted_row(product_name(p), p.points, 2.0 * static_cast<double>(p.inputs * p.outputs), "FLOP/s", "rows");
  for (const MeasuredKernels& k : cluster.kernels) rows += fitted_row(kernels_name(k), k.points, 1, "B/s", "");
  for (const MeasuredCopy& c : cluster.copies)
    rows += fitted_row(std::string(enum_name(c.kind)), c.points, 1, "B/s", "");
  if (rows.empty()) return {};
  return fmt::format("\n{:<38}{:>12}{:>16}{:>22}\n", "fit: start + size / rate", "start", "rate", "worst error") + rows;
}

// Returns a table of the speed of lane y while lane x runs, relative to y alone: alpha(y, x) of MPMoE. The table has a
// title, a row for each y, a column for each x, and a column for all other lanes together.
std::string slowdowns_table(std::string_view title, const std::vector<MeasuredSlowdown>& slowdowns) {
  std::string text = fmt::format("\n{:<16}", title);
  constexpr auto works = enum_names(Lane{});
  for (const auto& [x, name] : works) text += fmt::format("{:>10}", name);
  text += fmt::format("{:>10}\n", "all");
  for (const auto& [y, name] : works) {
    const auto cell = [&, of = y](const auto& is_meant) {
      const auto found = std::find_if(slowdowns.begin(), slowdowns.end(),
                                      [&](const MeasuredSlowdown& s) { return s.of == of && is_meant(s.beside); });
      return found == slowdowns.end() ? "-" : fmt::format("{:.2f}", found->speed);
    };
    std::string row;
    for (const auto& [x, beside] : works)
      row += fmt::format("{:>10}", cell([x = x](const std::vector<Lane>& b) { return b == std::vector{x}; }));
    row += fmt::format("{:>10}", cell([](const std::vector<Lane>& b) { return b.size() > 1; }));
    if (row.find('.') != row.npos) text += fmt::format("{:<16}{}\n", name, row);
  }
  return text;
}

}  // namespace

std::string profile_table(const Cluster& cluster) {
  const Origin& m = cluster.measured;
  std::string text = fmt::format("{} node{}, {} rank{} each, {} thread{} per rank; {}\n", m.nodes,
                                 m.nodes == 1 ? "" : "s", m.ranks_per_node, m.ranks_per_node == 1 ? "" : "s", m.threads,
                                 m.threads == 1 ? "" : "s", m.processor);
  if (m.node_cores && *m.node_cores < m.ranks_per_node * m.threads)
    text += fmt::format("the ranks of a node share {}; a rank that waits uses {:.2f} of a core\n",
                        base::counted(*m.node_cores, "core"), m.waiting);
  for (const MeasuredPeak& p : cluster.peaks)
    text += fmt::format("large {} products: {} per rank\n", enum_name(p.element),
                        human_quantity(p.flops_per_second, "FLOP/s"));
  if (!cluster.links.empty()) text += links_table(cluster.links);
  if (!cluster.products.empty()) text += products_table(cluster.products);
  if (!cluster.attention.empty()) text += attention_table(cluster.attention);
  if (!cluster.kernels.empty()) text += kernels_table(cluster.kernels);
  if (!cluster.copies.empty()) text += copies_table(cluster.copies);
  if (cluster.operation) text += fmt::format("\nhost, per operation: {:.2f} us\n", 1e6 * *cluster.operation);
  if (cluster.handoff)
    text += fmt::format("host, additional time per operation on a lane's thread: {:.2f} us\n", 1e6 * *cluster.handoff);
  text += fits_table(cluster);
  if (!cluster.slowdowns.empty()) text += slowdowns_table("speed beside", cluster.slowdowns);
  for (const MeasuredThreads& t : cluster.fewer_threads)
    text += fmt::format("{}products on {} of {} threads: {:.2f} of the speed on all threads\n",
                        &t == cluster.fewer_threads.data() ? "\n" : "", t.threads, m.threads, t.speed);
  if (!cluster.capped_slowdowns.empty()) text += slowdowns_table("one thread idle", cluster.capped_slowdowns);
  return text;
}

}  // namespace hexad::plan
