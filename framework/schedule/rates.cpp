#include "framework/schedule/rates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/base/thread_share.h"

namespace hexad::schedule {
namespace {

std::string describe(TaskKind kind, const std::string& group, int group_size, bool crosses_nodes) {
  return base::cat(name_of(kind), " of ", group.empty() ? "no group" : group, ", ", base::counted(group_size, "rank"),
                   ", ", crosses_nodes ? "between nodes" : "within a node");
}

std::string describe(const Rates::Link& l) { return describe(l.kind, l.group, l.group_size, l.crosses_nodes); }

double bytes_on_wire(const Cost& cost) { return static_cast<double>(std::max(cost.wire_bytes, cost.received_bytes)); }

// Returns the transfer of a communication task itself, without Cost::transfers.
Transfer own_transfer(const TaskSpec& task) {
  const Cost& c = task.cost;
  return {.kind = task.kind,
          .wire_bytes = std::max(c.wire_bytes, c.received_bytes),
          .group = c.group,
          .group_size = c.group_size,
          .crosses_nodes = c.crosses_nodes};
}

void check_curve(const TimeCurve& curve, const std::string& name) {
  double last = 0;
  for (const auto& [size, seconds] : curve.points) {
    if (!(size > last) || !std::isfinite(size))
      base::fail(base::ExitCode::usage, "rates: the sizes of ", name, " must be finite, above 0 and ascending, but ",
                 size, " follows ", last);
    if (!(seconds >= 0) || !std::isfinite(seconds))
      base::fail(base::ExitCode::usage, "rates: ", name, ": ", seconds, " s for size ", size,
                 "; expected a finite time of at least 0 s");
    last = size;
  }
}

double local_seconds(const TaskSpec& task, const TimeCurve& curve, double size, std::string_view work) {
  if (size > 0 && curve.points.empty())
    base::fail(base::ExitCode::usage, "rates: task '", task.name, "' has ", work,
               ", whose speed was not measured; `hexad profile` measures it");
  return curve.seconds(size);
}

void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

const TimeCurve& wire_curve(const Rates& rates, const std::string& task, const Transfer& c) {
  if (!is_communication(c.kind))
    base::fail(base::ExitCode::usage, "rates: task '", task, "' transfers bytes, but its kind is ", name_of(c.kind),
               "; expected a kind of communication");
  if (const auto* link = rates.find(c.kind, c.group, c.group_size, c.crosses_nodes)) return link->curve;
  if (rates.other_links) return c.crosses_nodes ? rates.other_links->between_nodes : rates.other_links->within_node;
  std::string measured;
  for (const auto& link : rates.links) measured += base::cat(measured.empty() ? "" : "; ", describe(link));
  base::fail(base::ExitCode::usage, "rates: task '", task, "' needs ",
             describe(c.kind, c.group, c.group_size, c.crosses_nodes),
             ", which was not measured (measured: ", measured.empty() ? "no link" : measured,
             "); `hexad profile` measures links");
}

}  // namespace

TimeCurve TimeCurve::linear(double latency, double per_second) {
  constexpr double far = 1e18;  // beyond all sizes that occur
  return {{{1, latency + 1 / per_second}, {far, latency + far / per_second}}};
}

double TimeCurve::seconds(double size) const {
  if (size <= 0) return 0;
  base::require(!points.empty(), "[schedule] a curve has no points, so its seconds for size ", size,
                " are unknown; expected at least one point");
  if (size <= points.front().size) return points.front().seconds;
  const Point& last = points.back();
  if (size >= last.size) {
    const Point before = points.size() > 1 ? points[points.size() - 2] : Point{0, 0};
    return last.seconds +
           (size - last.size) * std::max(0.0, (last.seconds - before.seconds) / (last.size - before.size));
  }
  const auto right =
      std::upper_bound(points.begin(), points.end(), size, [](double s, const Point& point) { return s < point.size; });
  const Point& left = *(right - 1);
  return std::lerp(left.seconds, right->seconds, (size - left.size) / (right->size - left.size));
}

LaneSet LaneSet::without(Lane lane) const {
  LaneSet rest = *this;
  rest.bits_ &= ~bit(lane);
  return rest;
}

std::string LaneSet::to_string() const {
  std::string text;
  for (int l = 0; l < device::lane_count; ++l)
    if (contains(static_cast<Lane>(l))) text += base::cat(text.empty() ? "" : ", ", name_of(static_cast<Lane>(l)));
  return text;
}

double Rates::alpha(Lane lane, LaneSet beside, bool capped) const {
  beside = beside.without(lane);
  const auto measured = [&](LaneSet others) -> const Slowdown* {
    for (const bool with : {capped, false})
      for (const Slowdown& s : slowdowns)
        if (s.lane == lane && s.beside == others && s.capped == with) return &s;
    return nullptr;
  };
  if (const Slowdown* all = measured(beside)) return all->alpha;
  double delay = 0;
  for (int l = 0; l < device::lane_count; ++l) {
    const Lane other = static_cast<Lane>(l);
    if (!beside.contains(other)) continue;
    if (const Slowdown* one = measured({other})) delay += 1 / one->alpha - 1;
  }
  return 1 / (1 + delay);
}

double Rates::speed_of_share(double share) const {
  base::require(!speed_of_threads.empty(),
                "[schedule] rates: speed_of_threads is empty; expected an entry for each thread");
  return speed_of_threads[base::threads_of_share(static_cast<int>(speed_of_threads.size()), share) - 1];
}

const Rates::Link* Rates::find(TaskKind kind, const std::string& group, int group_size, bool crosses_nodes) const {
  const auto it = std::find_if(links.begin(), links.end(), [&](const Link& l) {
    return l.kind == kind && l.group == group && l.group_size == group_size && l.crosses_nodes == crosses_nodes;
  });
  return it == links.end() ? nullptr : &*it;
}

double Rates::seconds(const TaskSpec& task) const {
  const Cost& cost = task.cost;
  double sum = local_seconds(task, copy, static_cast<double>(cost.copy_bytes), "copies");
  ByGemmPass<int64_t> products = cost.products;
  if (products == ByGemmPass<int64_t>{}) products.front() = 1;
  const auto all = static_cast<double>(std::accumulate(products.begin(), products.end(), int64_t{0}));
  for (size_t pass = 0; pass < products.size(); ++pass) {
    const TimeCurve& curve = cost.dense && !dense[pass].points.empty() ? dense[pass] : compute[pass];
    if (products[pass] > 0)
      sum += static_cast<double>(products[pass]) * local_seconds(task, curve, cost.flops / all, "computations") /
             speed_of_share(cost.share);
  }
  if (const double bytes = bytes_on_wire(cost); bytes > 0)
    sum += wire_curve(*this, task.name, own_transfer(task)).seconds(bytes);
  for (const Transfer& t : cost.transfers)
    if (t.wire_bytes > 0)
      sum += static_cast<double>(t.times) * wire_curve(*this, task.name, t).seconds(static_cast<double>(t.wire_bytes));
  return sum;
}

double Rates::burst_of(const TaskSpec& task) const {
  if (bytes_on_wire(task.cost) == 0) return 0;
  return task.cost.crosses_nodes ? bursts.between_nodes : bursts.within_node;
}

double Rates::seconds_in_burst(const TaskSpec& task) const {
  const double all = seconds(task), bytes = bytes_on_wire(task.cost);
  if (bytes == 0) return all;
  const TimeCurve& curve = wire_curve(*this, task.name, own_transfer(task));
  return all - curve.seconds(bytes) + curve.points.front().seconds;
}

void Rates::check() const {
  for (const auto& [pass, name] : enum_names(GemmPass{}))
    check_curve(compute[base::ordinal(pass)], base::cat(name, " products"));
  for (const auto& [pass, name] : enum_names(GemmPass{}))
    check_curve(dense[base::ordinal(pass)], base::cat("dense ", name, " products"));
  check_curve(copy, "copy");
  const auto check_link = [](const TimeCurve& curve, const std::string& name) {
    check_curve(curve, name);
    if (curve.points.empty())
      base::fail(base::ExitCode::usage, "rates: no point was measured for ", name, "; expected at least one");
  };
  for (const Link& link : links) check_link(link.curve, describe(link));
  if (other_links) {
    check_link(other_links->within_node, "other links within a node");
    check_link(other_links->between_nodes, "other links between nodes");
  }
  for (const double burst : {bursts.between_nodes, bursts.within_node})
    if (!(burst >= 0) || !std::isfinite(burst))
      base::fail(base::ExitCode::usage, "rates: the burst of a link is ", burst,
                 " s; expected a finite time of at least 0 s");
  for (const Slowdown& s : slowdowns)
    if (!(s.alpha > 0 && s.alpha <= 1))
      base::fail(base::ExitCode::usage, "rates: lane ", name_of(s.lane), " runs at ", s.alpha,
                 " times its speed during ", s.beside.to_string(), "; expected a factor above 0 and at most 1");
  for (const double speed : speed_of_threads)
    if (!(speed > 0) || !std::isfinite(speed))
      base::fail(base::ExitCode::usage, "rates: the relative speed of products on fewer threads is ", speed,
                 "; expected a finite number above 0");
  if (cores) cores->check();
}

Rates Rates::defaults() {
  // The rates within a node are in the range of measurements on two cores of a shared server (this project's benchmark
  // pages):
  //   - Products in f32 ran at 100 to 145 GFLOP/s per core.
  //   - Copies ran at 10 to 30 GB/s.
  //   - An all-to-all of two ranks through shared memory ran at 0.2 to 1.5 GB/s for 64 KiB, 1.5 to 5.4 GB/s for 1 MiB,
  //     and 0.7 to 2.4 GB/s for 16 MiB. Smaller sizes took 0.05 to 0.35 ms.
  // Gigabit Ethernet carries 119 MB/s of data. The latencies of products, copies and the network are estimates.
  constexpr double kib = 1024, mib = 1024 * kib;
  Rates r;
  r.compute.fill(TimeCurve::linear(20e-6, 100e9));
  r.copy = TimeCurve::linear(5e-6, 10e9);
  r.other_links = {.within_node = {{{64 * kib, 1e-4}, {mib, 4e-4}, {16 * mib, 11e-3}}},
                   .between_nodes = TimeCurve::linear(2e-4, 119e6)};
  return r;
}

std::vector<std::string> unmeasured_links(const TaskSpec& task, const Rates& rates) {
  std::vector<std::string> missing;
  const auto add = [&](const Transfer& t) {
    if (t.wire_bytes == 0 || rates.find(t.kind, t.group, t.group_size, t.crosses_nodes)) return;
    add_once(missing, describe(t.kind, t.group, t.group_size, t.crosses_nodes));
  };
  if (is_communication(task.kind)) add(own_transfer(task));
  for (const Transfer& t : task.cost.transfers) add(t);
  return missing;
}

std::vector<std::string> unmeasured_links(const TaskGraph& graph, const Rates& rates) {
  std::vector<std::string> missing;
  for (const Task& task : graph.tasks())
    for (std::string& link : unmeasured_links(task.spec, rates)) add_once(missing, std::move(link));
  return missing;
}

}  // namespace hexad::schedule
