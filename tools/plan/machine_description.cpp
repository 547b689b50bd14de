#include "tools/plan/machine_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tools/plan/legal_number.h"

namespace hexad::plan {
namespace {

using config::Curve;
using Points = std::vector<Curve::Point>;

// Plausible limits of rates and times. A value outside these limits is probably in the wrong unit.
constexpr double least_rate = 1e6, max_rate = 1e14;                                // bytes/s
constexpr double least_flops = 1e9, max_flops = 1e17;                              // FLOP/s
constexpr double max_launch = 1e-4, max_start = 1e-3, max_network_latency = 1e-2;  // seconds
constexpr int64_t smallest_memory = 1 << 20;
constexpr int64_t most_gigabytes = 4096;  // a larger number is probably in megabytes
constexpr double max_network_share = 4;   // network bandwidth of a rank / bandwidth of the link inside a domain

bool is_plausible_rate(double bytes_per_second) {
  return bytes_per_second >= least_rate && bytes_per_second <= max_rate;
}

// Returns the text of a power of ten, such as "1e6".
std::string power_of_ten(double value) { return fmt::format("1e{}", std::lround(std::log10(value))); }

class Checker {
 public:
  Checker(const std::string& path, config::Problems& problems) : path_(path), problems_(problems) {}

  void sizes(const Machine& m) const {
    if (!good("nodes") || !good("ranks_per_node") || !good("domain")) return;
    const int64_t all = m.nodes * m.ranks_per_node;
    if (m.domain && *m.domain < m.ranks_per_node)
      add("domain", fmt::format("must be at least {} ({}): the ranks of a node are in one domain; nearest: {}",
                                at("ranks_per_node"), m.ranks_per_node, m.ranks_per_node));
    else if (m.domain && *m.domain > all)
      add("domain", fmt::format("must be at most {} x {} ({}); nearest: {}", at("nodes"), at("ranks_per_node"), all,
                                all / m.ranks_per_node * m.ranks_per_node));
    else if (m.domain && *m.domain % m.ranks_per_node != 0)
      add("domain", fmt::format("must be divisible by {} ({}); nearest: {}", at("ranks_per_node"), m.ranks_per_node,
                                config::nearest_multiples(*m.domain, m.ranks_per_node)));
    const int64_t domain = m.domain.value_or(m.ranks_per_node);
    if (domain > 1 && !m.inside)
      missing("inside",
              fmt::format("must be given, because the {} ranks of a domain exchange data over this link, such as "
                          "inside: {{bandwidth: 450e9, latency: 3.4e-6}} for NVLink of an H100",
                          domain));
    if (all > domain && !m.network)
      missing("network",
              fmt::format("must be given, because the {} ranks are in domains of {} and exchange data between domains, "
                          "such as network: {{bandwidth: 50e9, latency: 14e-6}} for 400 Gb/s a rank",
                          all, domain));
    if (good("topology.rails") && m.topology.rails && *m.topology.rails > m.ranks_per_node)
      add("topology.rails",
          fmt::format("must be at most {} ({}); count several adapters of a rank as one, and set {} to the sum of "
                      "their bandwidths; nearest: {}",
                      at("ranks_per_node"), m.ranks_per_node, at("network.bandwidth"), m.ranks_per_node));
  }

  void peaks(const Machine& m) const {
    const Peak& peak = m.peak;
    if (!peak.bf16 && !peak.f32 && !peak.f64)
      add("peak", "must have at least one of bf16, f32, f64, such as peak: {bf16: 989e12} for an H100");
    for (const auto& [key, value] : {std::pair{"peak.bf16", peak.bf16}, {"peak.f32", peak.f32}, {"peak.f64", peak.f64}})
      if (value) within(key, *value, least_flops, max_flops, "FLOP/s (989 TFLOP/s is 989e12)", "TFLOP/s", "e12");
  }

  void rate(const std::string& key, double value) const {
    within(key, value, least_rate, max_rate, "bytes/s (a link of 400 Gb/s carries 50e9)", "GB/s", "e9");
  }

  void seconds(const std::string& key, double value, double most) const {
    if (!good(key) || value <= most) return;
    const bool milli = 1e-3 * value <= most && value < 0.1;
    add(key, fmt::format("must be at most {:g} seconds (5 us are 5e-6); nearest: {:g}; if the value is in {}, write "
                         "{:g}e-{}",
                         most, most, milli ? "milliseconds" : "microseconds", value, milli ? 3 : 6));
  }

  void bytes(const std::string& key, int64_t value) const {
    if (!good(key) || value >= smallest_memory) return;
    const std::string_view unit = value <= most_gigabytes ? "GB" : "MiB";  // drivers show the memory of GPUs in MiB
    add(key, fmt::format("must be at least {} bytes (1 MiB); nearest: 1MiB; if the value is in {}, write {}{}",
                         smallest_memory, unit, value, unit));
  }

  // Checks a share of a rate. Returns true if the share is at most 1 and its key has no other problem.
  bool share(const std::string& key, double value) const {
    if (!good(key) || value <= 1) return good(key);
    add(key, value <= 100
                 ? fmt::format("must be at most 1; nearest: 1; if the value is in percent, write {:g}", value / 100)
                 : "must be at most 1; nearest: 1");
    return false;
  }
  bool share(const std::string& key, const Curve& curve) const {
    if (!good(key)) return false;
    if (curve.is_constant()) return share(key, curve.points.front().y);
    bool well = true;
    for (size_t i = 0; i < curve.points.size(); ++i)
      well = share(fmt::format("{}.{}.1", key, i), curve.points[i].y) && well;
    return well;
  }

  void link(const std::string& key, const std::optional<MachineLink>& link) const {
    if (!link) return;
    rate(key + ".bandwidth", link->bandwidth);
    seconds(key + ".latency", link->latency, key == "network" ? max_network_latency : max_start);
    if (link->efficiency) rising(key + ".efficiency", *link->efficiency, "bytes");
  }

  // Checks that the network does not give a rank far more bandwidth than the link inside a domain. The link inside a
  // domain is usually faster.
  void units_of_links(const Machine& m) const {
    if (!m.inside || !m.network || !good("ranks_per_node") || !good("topology") || !good("inside.bandwidth") ||
        !good("network.bandwidth") || !is_plausible_rate(m.inside->bandwidth) ||
        !is_plausible_rate(m.network->bandwidth))
      return;
    const auto ranks = static_cast<double>(m.ranks_per_node);
    const double rails = m.topology.rails ? static_cast<double>(*m.topology.rails) : ranks;
    const double most = max_network_share * m.inside->bandwidth * ranks / rails;
    if (m.network->bandwidth <= most) return;
    const std::string text = legal_number(most, [&](double bandwidth) { return bandwidth <= most; });
    add("network.bandwidth",
        fmt::format("must be at most {0}, so that a rank's share of the network adapters is at most {1:g} times {2} "
                    "({3:g}); nearest: {0}; both are in bytes/s (a link of 400 Gb/s carries 50e9)",
                    text, max_network_share, at("inside.bandwidth"), m.inside->bandwidth));
  }

  // Checks a curve of efficiency over the size of the work. The first size must be above 0. The efficiency must neither
  // fall nor rise faster than the size.
  void rising(const std::string& key, const Curve& curve, const std::string& unit) const {
    if (!share(key, curve) || !ascending(key, curve, unit)) return;
    for (size_t i = 1; i < curve.points.size(); ++i) {
      const auto [x0, y0] = curve.points[i - 1];
      const auto [x, y] = curve.points[i];
      const auto rises_faster = [&, x0 = x0, y0 = y0, x = x](double share) { return share / y0 > x / x0 * (1 + 1e-9); };
      if (rises_faster(y))
        add(fmt::format("{}.{}.1", key, i),
            fmt::format(
                "must not rise faster than the {0}, because more work would then take less time; expected at most "
                "{1} at {2:g} {0}, because the previous point has {3:g} at {4:g}; nearest: {1}",
                unit, legal_number(y0 * x / x0, std::not_fn(rises_faster)), x, y0, x0));
    }
  }

  bool ascending(const std::string& key, const Curve& curve, const std::string& unit) const {
    if (!good(key) || curve.is_constant()) return false;
    if (!(curve.points.front().x > 0)) {
      add(fmt::format("{}.0.0", key), fmt::format("must be above 0 {}", unit));
      return false;
    }
    bool well = true;
    for (size_t i = 1; i < curve.points.size(); ++i) {
      const double before = curve.points[i - 1].y;
      const auto falls = [&](double share) { return share < before; };
      if (!falls(curve.points[i].y)) continue;
      add(fmt::format("{}.{}.1", key, i),
          fmt::format("must not fall: the previous point has {0} at {1:g} {2}; nearest: {0}",
                      legal_number(before, std::not_fn(falls), 6), curve.points[i - 1].x, unit));
      well = false;
    }
    return well;
  }

  void contention(const Machine& m) const {
    if (!m.contention) return;
    share("contention.collective_beside_product", m.contention->collective_beside_product);
    share("contention.product_beside_copy", m.contention->product_beside_copy);
    if (!good("sms") || !good("contention.communication_sms")) return;
    if (m.contention->communication_sms >= m.sms)
      add("contention.communication_sms",
          fmt::format("must be less than {} ({}); nearest: {}", at("sms"), m.sms, m.sms - 1));
  }

  bool good(const std::string& key) const { return problems_.good({at(key)}); }

 private:
  std::string at(const std::string& key) const { return path_ + "." + key; }
  void add(const std::string& key, const std::string& what) const { problems_.add(at(key), what); }
  void missing(const std::string& key, const std::string& what) const { problems_.add_missing(at(key), what); }

  void within(const std::string& key, double value, double least, double most, std::string_view unit,
              std::string_view usual, std::string_view power) const {
    if (!good(key) || (value >= least && value <= most)) return;
    const bool low = value < least;
    const std::string hint =
        low ? fmt::format("; if the value is in {2}, write {0:g}{1}", value, power, usual) : std::string();
    add(key, fmt::format("must be between {} and {} {}; nearest: {}{}", power_of_ten(least), power_of_ten(most), unit,
                         power_of_ten(low ? least : most), hint));
  }

  const std::string& path_;
  config::Problems& problems_;
};

// Single kernels on one H100 80GB HBM3 (docs/reports/gpu-h100.md, "Kernels at the sizes of that step"), as shares of
// the data sheet's 989.4 TFLOP/s and 3.35 TB/s. The shipped h100-dgx.yaml has the same values, with the source of each
// point.
const ProductEfficiency dense_of_h100{Points{{64, 0.18}, {512, 0.70}, {1024, 0.74}, {2048, 0.77}, {8192, 0.79}}, 32, 0};
const ProductEfficiency grouped_of_h100{Points{{64, 0.18}, {512, 0.725}, {1024, 0.755}, {2048, 0.81}}, 128, 0.1};
const AttentionEfficiency attention_of_h100{Points{{4096, 0.575}, {16384, 0.645}, {32768, 0.655}},
                                            Points{{4096, 0.44}, {16384, 0.525}, {32768, 0.53}}, 54};
const Curve memory_of_h100{Points{{1e6, 0.07}, {16e6, 0.5}, {134e6, 0.755}, {268e6, 0.81}, {403e6, 0.87}}};
// The points of large sizes are from the all-to-all of arXiv 2603.07685, Table 7.
const Curve inside_of_h100{Points{{1e6, 0.17}, {8e6, 0.52}, {64e6, 0.69}, {411e6, 0.72}}};
const Curve network_of_h100{Points{{1e6, 0.3}, {8e6, 0.43}, {32e6, 0.63}, {235e6, 0.81}, {352e6, 0.875}, {411e6, 0.9}}};

}  // namespace

void check_machine(const Machine& m, const std::string& path, config::Problems& problems) {
  const Checker check(path, problems);
  check.sizes(m);
  check.peaks(m);
  check.rate("memory_bandwidth", m.memory_bandwidth);
  check.link("inside", m.inside);
  check.link("network", m.network);
  check.units_of_links(m);
  if (m.host) {
    check.rate("host.to_host", m.host->to_host);
    check.rate("host.to_device", m.host->to_device);
    check.seconds("host.latency", m.host->latency, max_start);
  }
  check.bytes("memory", m.memory);
  if (m.host_memory) check.bytes("host_memory", *m.host_memory);
  if (m.launch) check.seconds("launch", *m.launch, max_launch);
  if (m.operation) check.seconds("operation", *m.operation, max_start);
  if (m.collective_start) check.seconds("collective_start", *m.collective_start, max_start);
  if (m.sustained) check.share("sustained", *m.sustained);
  if (m.dense) check.rising("dense.efficiency", m.dense->efficiency, "rows");
  if (m.grouped) check.rising("grouped.efficiency", m.grouped->efficiency, "rows");
  if (m.memory_efficiency) check.rising("memory_efficiency", *m.memory_efficiency, "bytes");
  if (m.attention)
    for (const auto& [key, curve] : {std::pair("attention.forward", &m.attention->forward),
                                     std::pair("attention.backward", &m.attention->backward)})
      if (check.share(key, *curve)) check.ascending(key, *curve, "tokens");
  check.contention(m);
}

CompleteMachine complete(const Machine& given) {
  CompleteMachine out{given, {}};
  Machine& m = out.machine;
  const auto assume = [&](auto& member, auto value, std::string_view text) {
    if (member) return;
    member = std::move(value);
    out.assumptions.emplace_back(text);
  };
  if (!m.domain) m.domain = m.ranks_per_node;
  if (!m.topology.rails) m.topology.rails = m.ranks_per_node;
  assume(m.sustained, 0.93, "sustained: 0.93, as measured on one H100 in a training step (docs/reports/gpu-h100.md)");
  assume(m.dense, dense_of_h100,
         "dense: share of the peak by number of rows, as measured on one H100 (docs/reports/gpu-h100.md)");
  assume(m.grouped, grouped_of_h100,
         "grouped: share of the peak by number of rows, as measured on one H100 (docs/reports/gpu-h100.md)");
  assume(m.attention, attention_of_h100,
         "attention: share of the peak, as measured on one H100 (docs/reports/gpu-h100.md; arXiv 2603.07685, Table 9)");
  assume(m.memory_efficiency, memory_of_h100,
         "memory_efficiency: share of the bandwidth, as measured on one H100 (docs/reports/gpu-h100.md)");
  assume(m.launch, 1.5e-6, "launch: 1.5 us between kernels, as measured on one H100 (docs/reports/gpu-h100.md)");
  if (m.device == MachineDevice::cuda)
    assume(m.operation, 3.8e-6,
           "operation: 3.8 us of host time for each operation, the interval between short kernels on a V100 (NVIDIA, "
           "Getting Started with CUDA Graphs, 2019)");
  else
    assume(m.operation, 2.1e-6,
           "operation: 2.1 us for an operation in addition to its kernel, as hexad profile measured on one core "
           "(docs/profile.md)");
  assume(m.collective_start, 8.4e-6, "collective_start: 8.4 us (NCCL, src/graph/tuning.cc, protocol Simple)");
  assume(m.host, HostLink{20e9, 25e9, 10e-6},
         "host: 20 GB/s to the host and 25 GB/s to the device, assumed for PCIe 4.0 x16");
  if (!m.host_memory)
    out.assumptions.emplace_back(
        "host_memory: none for offloading, so plans offload no more than the recipe; to allow more, add "
        "machine.host_memory, the bytes of host memory for each rank");
  if (m.inside)
    assume(m.inside->efficiency, inside_of_h100,
           "inside.efficiency: like NVLink of a DGX H100 (arXiv 2603.07685, Table 7; small sizes are estimates)");
  if (m.network)
    assume(m.network->efficiency, network_of_h100,
           "network.efficiency: like a 400 Gb/s adapter of a DGX H100 (arXiv 2603.07685, Table 7; small sizes as on "
           "MoNTA's A800)");
  assume(m.contention, Contention{std::min<int64_t>(20, m.sms / 2), 0.9, 0.875},
         "contention: a collective takes 20 SMs (EPS-MoE, Fig. 7), but at most half of all SMs, and keeps 0.9 of its "
         "speed while products run (an estimate); products keep 0.875 of their speed during an offload, as measured on "
         "one H100");
  return out;
}

}  // namespace hexad::plan
