#include "tools/plan/described_prices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "framework/base/error.h"
#include "tools/plan/cluster_error.h"

namespace hexad::plan {

using base::Dtype;
using schedule::LaneSet;
using schedule::Rates;

namespace {

constexpr double tile = 128;           // number of rows, and of columns, of the tile that one SM computes at a time
constexpr double peers_of_a_step = 8;  // number of sends that NCCL batches in one step

// Returns the efficiency of attention at the sequence length x. The efficiency is linear between points and constant
// beyond them.
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

}  // namespace

DescribedPrices::DescribedPrices(const Machine& given)
    : m_(complete(given).machine),
      dense_(m_.dense->efficiency, Efficiency::Below::time),
      grouped_(m_.grouped->efficiency, Efficiency::Below::time),
      memory_(*m_.memory_efficiency, Efficiency::Below::time) {
  if (m_.inside) inside_.emplace(*m_.inside->efficiency, Efficiency::Below::efficiency);
  if (m_.network) network_.emplace(*m_.network->efficiency, Efficiency::Below::efficiency);
}

double DescribedPrices::known_peak(Dtype dtype) const {
  return (dtype == Dtype::bf16 ? m_.peak.bf16 : dtype == Dtype::f32 ? m_.peak.f32 : m_.peak.f64).value_or(0);
}

double DescribedPrices::product(const Product& p, double largest) const {
  const bool dense = p.groups <= 1;
  const ProductEfficiency& share = dense ? *m_.dense : *m_.grouped;
  const Efficiency& curve = dense ? dense_ : grouped_;
  const double mean = p.rows / p.groups, weights = p.groups * p.inputs * p.outputs;
  const double result = p.pass == GemmPass::forward          ? p.rows * p.outputs
                        : p.pass == GemmPass::input_gradient ? p.rows * p.inputs
                                                             : weights;
  const double occupied = std::min(1.0, result / (static_cast<double>(m_.sms) * tile * tile));
  const double width = p.inputs / (p.inputs + share.half_width) * (p.outputs / (p.outputs + share.half_width));
  // Takes the lower of the efficiencies by width and by occupied SMs. A larger matrix product could take less time if
  // these efficiencies were multiplied.
  const double efficiency = std::min(curve.at(mean) * width, curve.greatest() * occupied);
  const double rate = peak(p.dtype) * *m_.sustained * efficiency;
  const double flops = 2 * p.rows * p.inputs * p.outputs;
  const double bytes = static_cast<double>(base::size_of(p.dtype)) * (p.rows * p.inputs + weights + p.rows * p.outputs);
  const double skewed = 1 + share.skew * (1 - mean / largest);
  return std::max(flops / rate, in_memory(bytes)) * skewed +
         p.extra_bytes / (m_.memory_bandwidth * memory_.greatest()) + *m_.launch;
}

double DescribedPrices::attention(const Attention& a) const {
  const AttentionEfficiency& share = *m_.attention;
  const Curve& curve = a.pass == AttentionPass::forward ? share.forward : share.backward;
  const double head = a.head_dim / (a.head_dim + share.half_head) * (128 + share.half_head) / 128;
  const double efficiency = std::min(1.0, share_at(curve, a.sequence) * head);
  return a.flops / (peak(a.dtype) * *m_.sustained * efficiency) + *m_.launch;
}

double DescribedPrices::memory_bound(double bytes, double kernels) const {
  return kernels * (in_memory(bytes / kernels) + *m_.launch);
}

double DescribedPrices::copy(CopyKind kind, double bytes) const {
  if (kind == CopyKind::copy || kind == CopyKind::gather) return memory_bound(2 * bytes, 1);
  return m_.host->latency + bytes / (kind == CopyKind::offload ? m_.host->to_host : m_.host->to_device);
}

double DescribedPrices::collective(Collective operation, const GroupPlace& place, double bytes) const {
  base::require(place.ranks_per_node <= m_.ranks_per_node, "[Prices] a group has ", place.ranks_per_node,
                " ranks on one node, expected at most ", m_.ranks_per_node);
  const Distribution d = distribution_of(place);
  switch (operation) {
    case Collective::all_to_all:
      return *m_.collective_start + all_to_all(d, bytes);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return *m_.collective_start + ring(d, bytes) + ring_latency(d);
    case Collective::all_reduce:
      return *m_.collective_start + 2 * ring(d, bytes / 2) + 2 * std::min(ring_latency(d), tree_latency(d));
    case Collective::send:
      return *m_.collective_start +
             (d.domains > 1 ? outside(d, bytes) + m_.network->latency : within(bytes) + m_.inside->latency);
  }
  base::fail_invariant(
      base::cat("[Prices] the collective is ", static_cast<int>(operation), "; expected a Collective"));
}

void DescribedPrices::add_slowdowns(Rates& rates) const {
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

DescribedPrices::Distribution DescribedPrices::distribution_of(const GroupPlace& place) const {
  const int64_t nodes_of_domain = *m_.domain / m_.ranks_per_node;
  const int64_t inside =
      place.ranks_in_domain > 0 ? place.ranks_in_domain : place.ranks_per_node * std::min(place.nodes, nodes_of_domain);
  Distribution d{static_cast<double>(place.ranks), static_cast<double>(inside),
                 std::ceil(static_cast<double>(place.ranks) / static_cast<double>(inside)), 1};
  if (inside > 1 && !m_.inside)
    fail_cluster("machine.inside", "the cluster has no machine.inside, but a group of ", place.ranks, " ranks has ",
                 inside, " ranks in one domain; add the link `inside` to the section machine");
  if (d.domains > 1 && !m_.network)
    fail_cluster("machine.network", "the cluster has no machine.network, but a group of ", place.ranks, " ranks spans ",
                 d.domains, " domains; add the link `network` to the section machine");
  const auto users = static_cast<double>(place.ranks_per_node * place.groups);
  d.adapter = std::min(1.0, static_cast<double>(*m_.topology.rails) / users);
  const int64_t span = place.node_span > 0 ? place.node_span : place.nodes;
  if (m_.topology.switch_radix && span > *m_.topology.switch_radix / 2) d.adapter /= m_.topology.oversubscription;
  return d;
}

double DescribedPrices::outside(const Distribution& d, double bytes) const {
  return bytes > 0 ? bytes / (m_.network->bandwidth * d.adapter * network_->at(bytes)) : 0;
}

double DescribedPrices::all_to_all(const Distribution& d, double bytes) const {
  const double peers = d.ranks - 1, near = d.inside - 1, far = d.ranks - d.inside;
  const double rounds = std::ceil(peers / peers_of_a_step);
  const double inner = near > 0 ? within(bytes * near / peers) + rounds * m_.inside->latency : 0;
  const double outer = far > 0 ? outside(d, bytes * far / peers) + rounds * m_.network->latency : 0;
  return std::max(inner, outer);
}

double DescribedPrices::ring(const Distribution& d, double bytes) const {
  const double inner = d.inside > 1 ? within(bytes) : 0;
  const double outer = d.domains > 1 ? outside(d, bytes / d.inside) : 0;
  return std::max(inner, outer);
}

double DescribedPrices::ring_latency(const Distribution& d) const {
  if (d.inside <= 1) return steps(d.ranks) * m_.network->latency;
  return (d.ranks - d.domains) * m_.inside->latency + (d.domains > 1 ? (d.domains - 1) * m_.network->latency : 0);
}

double DescribedPrices::tree_latency(const Distribution& d) const {
  return (d.inside > 1 ? (d.inside - 1) * m_.inside->latency : 0) +
         (d.domains > 1 ? steps(d.domains) * m_.network->latency : 0);
}

double DescribedPrices::peak(Dtype dtype) const {
  const std::optional<double>& value = dtype == Dtype::bf16  ? m_.peak.bf16
                                       : dtype == Dtype::f32 ? m_.peak.f32
                                                             : m_.peak.f64;
  base::require(base::is_floating(dtype), "[Prices] products of ", base::name_of(dtype),
                " have no peak rate; expected a floating type");
  if (!value)
    fail_cluster(base::cat("machine.peak.", base::name_of(dtype)), "the cluster has no machine.peak.",
                 base::name_of(dtype), "; add it, in FLOP/s, from the data sheet of the processor");
  return *value;
}

}  // namespace hexad::plan
