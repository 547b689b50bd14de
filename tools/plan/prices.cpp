#include "tools/plan/prices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"

namespace hexad::plan {
namespace {

using base::cat;
using base::Dtype;
using schedule::LaneSet;
using schedule::Rates;
using schedule::TimeCurve;

constexpr double tile = 128;             // number of rows, and of columns, of the tile that one SM computes at a time
constexpr double peers_of_a_step = 8;    // number of sends that NCCL batches in one step
constexpr double attention_share = 0.5;  // ratio of attention's rate to the rate of a measured product

template <class E>
std::string_view word(E value) {
  return enum_names(E{})[base::ordinal(value)].second;
}

/// Efficiency as a function of the size of the work. Between points, the time (size / efficiency) is linear, as for a
/// fixed overhead and a constant rate. Beyond the last point, the efficiency is constant.
class Efficiency {
 public:
  /// Quantity that is constant below the first point: time or efficiency.
  enum class Below : uint8_t { time, efficiency };

  Efficiency(const Curve& curve, Below below) : points_(curve.points), below_(below), constant_(curve.is_constant()) {}

  double at(double size) const {
    const Curve::Point &first = points_.front(), &last = points_.back();
    if (constant_ || size >= last.x) return last.y;
    if (size <= first.x) return below_ == Below::time ? first.y * size / first.x : first.y;
    const auto right = std::upper_bound(points_.begin(), points_.end(), size,
                                        [](double s, const Curve::Point& point) { return s < point.x; });
    const auto left = right - 1;
    return size / std::lerp(left->x / left->y, right->x / right->y, (size - left->x) / (right->x - left->x));
  }
  double greatest() const { return points_.back().y; }

 private:
  std::vector<Curve::Point> points_;
  Below below_;
  bool constant_;
};

// Returns the share at x. The share is linear between points and constant beyond them. Used for shares that depend on
// quantities other than the amount of work.
double share_at(const Curve& curve, double x) {
  const auto& points = curve.points;
  if (curve.is_constant() || x <= points.front().x) return points.front().y;
  if (x >= points.back().x) return points.back().y;
  const auto right = std::upper_bound(points.begin(), points.end(), x,
                                      [](double s, const Curve::Point& point) { return s < point.x; });
  const auto left = right - 1;
  return std::lerp(left->y, right->y, (x - left->x) / (right->x - left->x));
}

double steps(double n) { return std::ceil(std::log2(n)); }

/// Prices computed from a described machine.
class Described {
 public:
  explicit Described(const Machine& given)
      : m_(complete(given).machine),
        dense_(m_.dense->efficiency, Efficiency::Below::time),
        grouped_(m_.grouped->efficiency, Efficiency::Below::time),
        memory_(*m_.memory_efficiency, Efficiency::Below::time) {
    if (m_.inside) inside_.emplace(*m_.inside->efficiency, Efficiency::Below::efficiency);
    if (m_.network) network_.emplace(*m_.network->efficiency, Efficiency::Below::efficiency);
  }

  const Machine& machine() const { return m_; }
  /// Returns the peak rate for `dtype` in FLOP/s; 0 if the description does not give it.
  double known_peak(Dtype dtype) const {
    return (dtype == Dtype::bf16 ? m_.peak.bf16 : dtype == Dtype::f32 ? m_.peak.f32 : m_.peak.f64).value_or(0);
  }

  double product(const Product& p, double largest) const {
    const bool dense = p.groups <= 1;
    const ProductEfficiency& share = dense ? *m_.dense : *m_.grouped;
    const Efficiency& curve = dense ? dense_ : grouped_;
    const double mean = p.rows / p.groups, weights = p.groups * p.inputs * p.outputs;
    const double result = p.pass == GemmPass::forward          ? p.rows * p.outputs
                          : p.pass == GemmPass::input_gradient ? p.rows * p.inputs
                                                               : weights;
    const double occupied = std::min(1.0, result / (static_cast<double>(m_.sms) * tile * tile));
    const double width = p.inputs / (p.inputs + share.half_width) * (p.outputs / (p.outputs + share.half_width));
    // Takes the lower of the two efficiencies. If they were multiplied, a larger matrix product could take less time.
    const double efficiency = std::min(curve.at(mean) * width, curve.greatest() * occupied);
    const double rate = peak(p.dtype) * *m_.sustained * efficiency;
    const double flops = 2 * p.rows * p.inputs * p.outputs;
    const double bytes =
        static_cast<double>(base::size_of(p.dtype)) * (p.rows * p.inputs + weights + p.rows * p.outputs);
    const double skewed = 1 + share.skew * (1 - mean / largest);
    return std::max(flops / rate, in_memory(bytes)) * skewed +
           p.extra_bytes / (m_.memory_bandwidth * memory_.greatest()) + *m_.launch;
  }

  double attention(const Attention& a) const {
    const AttentionEfficiency& share = *m_.attention;
    const Curve& curve = a.pass == AttentionPass::forward ? share.forward : share.backward;
    const double head = a.head_dim / (a.head_dim + share.half_head) * (128 + share.half_head) / 128;
    const double efficiency = std::min(1.0, share_at(curve, a.sequence) * head);
    return a.flops / (peak(a.dtype) * *m_.sustained * efficiency) + *m_.launch;
  }

  double memory_bound(double bytes, double kernels) const {
    return kernels * (in_memory(bytes / kernels) + *m_.launch);
  }

  double copy(CopyKind kind, double bytes) const {
    if (kind == CopyKind::copy || kind == CopyKind::gather) return memory_bound(2 * bytes, 1);
    return m_.host->latency + bytes / (kind == CopyKind::offload ? m_.host->to_host : m_.host->to_device);
  }

  double collective(Collective operation, const GroupPlace& place, double bytes) const {
    base::require(place.ranks_per_node <= m_.ranks_per_node, "[Prices] ", place.ranks_per_node,
                  " ranks of a group on one node, expected at most ", m_.ranks_per_node);
    const Way way = way_of(place);
    switch (operation) {
      case Collective::all_to_all:
        return *m_.collective_start + all_to_all(way, bytes);
      case Collective::all_gather:
      case Collective::reduce_scatter:
        return *m_.collective_start + ring(way, bytes) + ring_latency(way);
      case Collective::all_reduce:
        return *m_.collective_start + 2 * ring(way, bytes / 2) + 2 * std::min(ring_latency(way), tree_latency(way));
      case Collective::send:
        return *m_.collective_start +
               (way.domains > 1 ? outside(way, bytes) + m_.network->latency : within(bytes) + m_.inside->latency);
    }
    base::fail_invariant("[Prices] unknown collective");
  }

  // Adds those slowdowns of the description that `rates` does not list yet.
  void add_slowdowns(Rates& rates) const {
    const auto add = [&](Lane lane, Lane beside, double speed) {
      const bool listed = std::ranges::any_of(
          rates.slowdowns, [&](const auto& s) { return s.lane == lane && s.beside == LaneSet{beside}; });
      if (!listed && speed < 1) rates.slowdowns.push_back({lane, {beside}, speed});
    };
    const Contention& c = *m_.contention;
    const double rest = 1 - static_cast<double>(c.communication_sms) / static_cast<double>(m_.sms);
    for (const Lane link : {Lane::inter, Lane::intra}) {
      add(Lane::compute, link, rest);
      add(link, Lane::compute, c.collective_beside_product);
    }
    add(Lane::compute, Lane::copy, c.product_beside_copy);
  }

 private:
  // Distribution of a group: the number of its ranks, the number of its ranks in one domain, and the number of its
  // domains.
  struct Way {
    double ranks, inside, domains;
    double adapter;  // share of an adapter's bandwidth for each rank
  };

  Way way_of(const GroupPlace& place) const {
    const int64_t nodes_of_domain = *m_.domain / m_.ranks_per_node;
    const int64_t inside = place.ranks_in_domain > 0 ? place.ranks_in_domain
                                                     : place.ranks_per_node * std::min(place.nodes, nodes_of_domain);
    Way way{static_cast<double>(place.ranks), static_cast<double>(inside),
            std::ceil(static_cast<double>(place.ranks) / static_cast<double>(inside)), 1};
    if (inside > 1 && !m_.inside)
      base::fail(base::ExitCode::usage, "the cluster has no machine.inside: ", inside,
                 " ranks of a group are in the same ", "domain; add the link to the section machine");
    if (way.domains > 1 && !m_.network)
      base::fail(base::ExitCode::usage, "the cluster has no machine.network: a group of ", place.ranks, " ranks is on ",
                 place.nodes, " nodes; add the link to the section machine");
    const auto users = static_cast<double>(place.ranks_per_node * place.groups);
    way.adapter = std::min(1.0, static_cast<double>(*m_.topology.rails) / users);
    const int64_t span = place.node_span > 0 ? place.node_span : place.nodes;
    if (m_.topology.switch_radix && span > *m_.topology.switch_radix / 2) way.adapter /= m_.topology.oversubscription;
    return way;
  }

  double within(double bytes) const { return bytes > 0 ? bytes / (m_.inside->bandwidth * inside_->at(bytes)) : 0; }
  double outside(const Way& way, double bytes) const {
    return bytes > 0 ? bytes / (m_.network->bandwidth * way.adapter * network_->at(bytes)) : 0;
  }

  double all_to_all(const Way& way, double bytes) const {
    const double peers = way.ranks - 1, near = way.inside - 1, far = way.ranks - way.inside;
    const double rounds = std::ceil(peers / peers_of_a_step);
    const double inner = near > 0 ? within(bytes * near / peers) + rounds * m_.inside->latency : 0;
    const double outer = far > 0 ? outside(way, bytes * far / peers) + rounds * m_.network->latency : 0;
    return std::max(inner, outer);
  }

  double ring(const Way& way, double bytes) const {
    const double inner = way.inside > 1 ? within(bytes) : 0;
    const double outer = way.domains > 1 ? outside(way, bytes / way.inside) : 0;
    return std::max(inner, outer);
  }
  double ring_latency(const Way& way) const {
    if (way.inside <= 1) return steps(way.ranks) * m_.network->latency;
    return (way.ranks - way.domains) * m_.inside->latency +
           (way.domains > 1 ? (way.domains - 1) * m_.network->latency : 0);
  }
  double tree_latency(const Way& way) const {
    return (way.inside > 1 ? (way.inside - 1) * m_.inside->latency : 0) +
           (way.domains > 1 ? steps(way.domains) * m_.network->latency : 0);
  }

  double in_memory(double bytes) const { return bytes > 0 ? bytes / (m_.memory_bandwidth * memory_.at(bytes)) : 0; }

  double peak(Dtype dtype) const {
    const std::optional<double>& value = dtype == Dtype::bf16  ? m_.peak.bf16
                                         : dtype == Dtype::f32 ? m_.peak.f32
                                                               : m_.peak.f64;
    base::require(base::is_floating(dtype), "[Prices] products of ", base::name_of(dtype),
                  " have no peak rate; expected a floating type");
    if (!value)
      base::fail(base::ExitCode::usage, "the cluster has no machine.peak.", base::name_of(dtype),
                 "; add it, in FLOP/s, from the data sheet of the processor");
    return *value;
  }

  Machine m_;
  Efficiency dense_, grouped_, memory_;
  std::optional<Efficiency> inside_, network_;
};

/// Prices computed from measured curves.
class Measured {
 public:
  explicit Measured(const Cluster& cluster) : cluster_(cluster) {
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

  const Cluster& cluster() const { return cluster_; }

  bool has_products(Dtype dtype) const {
    const auto element = element_of(dtype);
    return element && std::ranges::any_of(products_, [&](const Timed& p) { return p.of.element == *element; });
  }
  bool has(CopyKind kind) const { return copies_[base::ordinal(kind)].has_value(); }
  bool has_links() const { return !links_.empty(); }
  bool has_link(Collective operation, const GroupPlace& place) const {
    return nearest_link(cluster_, operation, {"", place.ranks, place.nodes}) != nullptr;
  }

  /// Returns the highest rate of all measured products of the element type, in FLOP/s.
  double peak(Dtype dtype) const {
    double rate = 0;
    for (const Timed& p : products_)
      if (p.of.element == *element_of(dtype))
        for (const auto& [rows, seconds] : p.one.points) rate = std::max(rate, 2 * rows * p.area / seconds);
    return rate;
  }

  /// Returns the seconds of a product without its extra bytes.
  double product(const Product& p) const {
    const Timed& timed = *nearest(*element_of(p.dtype), p.pass, p.inputs * p.outputs, p.groups <= 1);
    return p.groups * timed.one.seconds(p.rows / p.groups) * (p.inputs * p.outputs / timed.area);
  }

  double attention(const Attention& a) const {
    const GemmPass pass = a.pass == AttentionPass::forward ? GemmPass::forward : GemmPass::input_gradient;
    return a.flops / (attention_share * rates_[base::ordinal(*element_of(a.dtype))][base::ordinal(pass)]);
  }

  double copy(CopyKind kind, double bytes) const { return copies_[base::ordinal(kind)]->seconds(bytes); }

  double collective(Collective operation, const GroupPlace& place, double bytes) const {
    const MeasuredLink* link = nearest_link(cluster_, operation, {"", place.ranks, place.nodes});
    if (!link)
      base::fail(base::ExitCode::usage, "the cluster has no measured ", word(operation), " for a group of ",
                 place.ranks, " ranks on ", place.nodes, place.nodes == 1 ? " node" : " nodes",
                 "; hexad profile measures it on such ranks");
    return links_[link - cluster_.links.data()].seconds(bytes);
  }

  bool has_single_products(Element element) const {
    return std::ranges::any_of(products_, [&](const Timed& p) { return p.of.element == element && p.of.experts == 1; });
  }

 private:
  struct Timed {
    MeasuredProduct of;
    double area;    // number of elements of one expert's weight
    TimeCurve one;  // seconds of one expert's product as a function of its rows
  };

  // Returns the nearest measured product of the element type; null if there is none. The kind (one or several experts)
  // decides first, then the size of the weight, then the pass.
  const Timed* nearest(Element element, GemmPass pass, double area, bool single) const {
    const Timed* best = nullptr;
    std::tuple<bool, double, bool> least;
    for (const Timed& p : products_) {
      if (p.of.element != element) continue;
      const std::tuple cost{(p.of.experts == 1) != single, std::abs(std::log2(p.area / area)), p.of.pass != pass};
      if (!best || cost < least) best = &p, least = cost;
    }
    return best;
  }

  // Returns the best FLOP/s, over all numbers of rows, of the largest measured weight in `pass`, or in any pass if it
  // was not measured in `pass`; 0 if no product was measured.
  double best_rate(Element element, GemmPass pass) const {
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

  Cluster cluster_;
  std::vector<Timed> products_;
  std::vector<TimeCurve> links_;  // in the order of cluster_.links
  std::array<std::optional<TimeCurve>, enum_names(CopyKind{}).size()> copies_;
  std::array<std::array<double, enum_names(GemmPass{}).size()>, enum_names(Element{}).size()> rates_{};
};

}  // namespace

struct Prices::Tables {
  Measured measured;
  KernelCurves kernels;
  std::optional<Described> described;
  Rates slowdowns{};

  // Returns the description. Throws Error(usage) if there is none. `missing` are the parts of the name of the missing
  // measurement. They are joined only for the message, because a plan prices millions of operations.
  template <class... Parts>
  const Described& description(const Parts&... missing) const {
    if (!described)
      base::fail(base::ExitCode::usage, "the cluster has no measured ", missing...,
                 " and no section machine; measure with hexad profile, or add a section machine");
    return *described;
  }
};

Prices::Prices(const Cluster& cluster) {
  const bool measured = !cluster.products.empty() || !cluster.dense_products.empty() || !cluster.attention.empty() ||
                        !cluster.kernels.empty() || !cluster.links.empty() || !cluster.copies.empty();
  if (!cluster.machine && !measured)
    base::fail(base::ExitCode::usage,
               "the cluster has neither measurements nor a section machine; measure with hexad profile, or add a "
               "section machine");
  auto tables = std::make_shared<Tables>(Tables{Measured(cluster), KernelCurves(cluster), {}, {}});
  if (cluster.machine) tables->described.emplace(*cluster.machine);
  for (const MeasuredSlowdown& s : cluster.slowdowns) {
    LaneSet beside;
    for (const Lane lane : s.beside) beside.add(lane);
    tables->slowdowns.slowdowns.push_back({s.of, beside, std::min(1.0, s.speed)});
  }
  tables->slowdowns.speed_of_threads = speeds_of_threads(cluster.measured.threads, cluster.fewer_threads);
  if (tables->described) tables->described->add_slowdowns(tables->slowdowns);
  tables_ = std::move(tables);
}

double Prices::product(const Product& p) const { return product(p, p.rows / p.groups); }

double Prices::product(const Product& p, double largest) const {
  if (p.rows <= 0) return 0;
  base::require(p.inputs > 0 && p.outputs > 0 && p.groups >= 1, "[Prices] a product of ", p.inputs, " x ", p.outputs,
                ", ", p.groups, " groups; expected sizes above 0 and at least 1 group");
  base::require(largest * (1 + 1e-9) >= p.rows / p.groups, "[Prices] the largest of ", p.groups, " groups has ",
                largest, " rows; expected at least ", p.rows / p.groups, ", the mean of ", p.rows, " rows");
  if (!tables_->measured.has_products(p.dtype))
    return tables_->description("products of ", base::name_of(p.dtype)).product(p, largest);
  return tables_->measured.product(p) + (p.extra_bytes > 0 ? memory_bound(p.extra_bytes) : 0);
}

double Prices::attention(const Attention& a) const {
  if (a.flops <= 0) return 0;
  base::require(a.head_dim > 0, "[Prices] attention with head_dim ", a.head_dim, ", expected above 0");
  if (const auto seconds = tables_->kernels.attention(a)) return *seconds;
  if (tables_->measured.has_products(a.dtype)) return tables_->measured.attention(a);
  return tables_->description("products of ", base::name_of(a.dtype)).attention(a);
}

double Prices::memory_bound(double bytes, double kernels) const {
  if (bytes <= 0) return 0;
  base::require(kernels >= 1, "[Prices] ", kernels, " kernels, expected at least 1");
  if (!tables_->measured.has(CopyKind::copy)) return tables_->description("copies").memory_bound(bytes, kernels);
  return kernels * tables_->measured.copy(CopyKind::copy, bytes / (2 * kernels));
}

double Prices::kernel(KernelClass of, Dtype dtype, double bytes) const {
  if (bytes <= 0) return 0;
  const std::optional<double> measured = tables_->kernels.kernel(of, dtype, bytes);
  return measured ? *measured : memory_bound(bytes);
}

double Prices::operation() const { return tables_->measured.cluster().operation.value_or(0); }

double Prices::copy(CopyKind kind, double bytes) const {
  if (bytes <= 0) return 0;
  if (tables_->measured.has(kind)) return tables_->measured.copy(kind, bytes);
  if (kind == CopyKind::copy || kind == CopyKind::gather) return memory_bound(2 * bytes);
  return tables_->description(word(kind), " copies").copy(kind, bytes);
}

double Prices::collective(Collective operation, const GroupPlace& place, double bytes) const {
  if (bytes <= 0 || place.ranks < 2) return 0;
  base::require(place.nodes >= 1 && place.groups >= 1 && place.ranks_per_node * place.nodes == place.ranks, "[Prices] ",
                place.groups, " groups of ", place.ranks, " ranks as ", place.nodes, " nodes x ", place.ranks_per_node,
                "; expected at least 1 group, and that the product is the number of ranks");
  const bool described = tables_->described && !tables_->measured.has_link(operation, place);
  if (tables_->measured.has_links() && !described) return tables_->measured.collective(operation, place, bytes);
  return tables_->description("links").collective(operation, place, bytes);
}

double Prices::slowdown(schedule::Lane lane, schedule::LaneSet beside) const {
  return tables_->slowdowns.alpha(lane, beside);
}

double Prices::speed_of_share(double share, base::Dtype dtype) const {
  return tables_->measured.has_products(dtype) ? tables_->slowdowns.speed_of_share(share) : share;
}

std::optional<schedule::SharedCores> Prices::cores(int64_t ranks) const {
  return shared_cores(tables_->measured.cluster().measured, ranks);
}

double Prices::peak(base::Dtype dtype) const {
  const double described = tables_->described ? tables_->described->known_peak(dtype) : 0;
  if (described > 0) return described;
  return tables_->measured.has_products(dtype) ? tables_->measured.peak(dtype) : 0;
}

int64_t Prices::domain() const { return tables_->described ? *tables_->described->machine().domain : ranks_per_node(); }

int64_t Prices::nodes() const {
  return tables_->described ? tables_->described->machine().nodes : tables_->measured.cluster().measured.nodes;
}

int64_t Prices::ranks_per_node() const {
  return tables_->described ? tables_->described->machine().ranks_per_node
                            : tables_->measured.cluster().measured.ranks_per_node;
}

std::vector<std::string> assumptions(const Cluster& cluster) {
  std::vector<std::string> texts;
  if (cluster.measured.date == "assumed")
    texts.emplace_back("all curves: those of a default machine, because none was measured");
  const Measured measured(cluster);
  const KernelCurves kernels(cluster);
  bool has_products = false;
  for (const auto& [element, name] : enum_names(Element{})) {
    if (!measured.has_products(element == Element::f32 ? Dtype::f32 : Dtype::bf16)) continue;
    has_products = true;
    if (!kernels.has_attention(element))
      texts.push_back(cat("attention in ", name, ": half the rate of the largest measured product"));
    if (!measured.has_single_products(element))
      texts.push_back(
          cat("dense products in ", name, ": priced like one expert of the nearest measured grouped product"));
  }
  if (has_products && !cluster.operation)
    texts.emplace_back("host: an operation takes no time in addition to its kernel");
  for (std::string& text : kernels.assumptions()) texts.push_back(std::move(text));
  if (measured.has(CopyKind::copy)) {
    if (!kernels.has_kernels())
      texts.emplace_back(
          "memory-bound kernels: priced like the measured copy that reads and writes the same number of bytes");
    if (!measured.has(CopyKind::gather)) texts.emplace_back("gather: priced like the measured copy");
  }
  if (cluster.machine)
    for (std::string& text : complete(*cluster.machine).assumptions) texts.push_back(std::move(text));
  return texts;
}

}  // namespace hexad::plan
