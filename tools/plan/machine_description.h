// A description of a cluster that was not measured (docs/planning.md): its sizes, the peak rates of its data sheets,
// and the share of the peaks that kernels and links reach. The section `machine` of a cluster file contains this
// description.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/byte_size.h"
#include "framework/config/constraints.h"
#include "framework/config/curve.h"
#include "framework/config/problems.h"

namespace hexad::plan {

/// Device on which a rank of the machine computes. The names are the values of the recipe key `device`.
enum class MachineDevice : uint8_t { cuda, cpu };
constexpr auto enum_names(MachineDevice) {
  return std::to_array<std::pair<MachineDevice, std::string_view>>(
      {{MachineDevice::cuda, "cuda"}, {MachineDevice::cpu, "cpu"}});
}

/// Peak rates of matrix products in FLOP/s, dense (no sparsity).
struct Peak {
  std::optional<double> bf16, f32, f64;

  template <class V>
  void fields(V& v) {
    v("bf16", bf16, "[FLOP/s] bf16 elements, accumulated in f32; on cards without bf16, the rate of fp16",
      config::positive());
    v("f32", f32, "[FLOP/s] f32 elements", config::positive());
    v("f64", f64, "[FLOP/s] f64 elements", config::positive());
  }
};

/// Efficiency of matrix products: the share of the peak that a product reaches. With `rows` rows in each group, the
/// share is at most efficiency(rows) x inputs/(inputs + half_width) x outputs/(outputs + half_width). Products whose
/// result has too few tiles for all SMs reach a smaller share.
struct ProductEfficiency {
  config::Curve efficiency;
  double half_width = 0;
  double skew = 0;

  template <class V>
  void fields(V& v) {
    v("efficiency", efficiency,
      "share of the peak rate as a function of the rows of a group, for wide inputs and outputs", config::positive());
    v("half_width", half_width, "number of inputs, or of outputs, at which a product reaches half of `efficiency`",
      config::at_least(0));
    v("skew", skew, "relative extra time if one group has nearly all rows; proportional to 1 - mean/largest rows",
      config::at_least(0));
  }
};

/// Efficiency of attention (one fused kernel per pass).
struct AttentionEfficiency {
  config::Curve forward, backward;
  double half_head = 0;

  template <class V>
  void fields(V& v) {
    v("forward", forward,
      "share of the peak rate in the forward pass as a function of the sequence length, for head_dim 128",
      config::positive());
    v("backward", backward,
      "share of the peak rate in the backward pass as a function of the sequence length, for head_dim 128",
      config::positive());
    v("half_head", half_head,
      "head_dim d reaches d/(d + half_head) x (128 + half_head)/128 times the share of the peak rate for head_dim 128",
      config::at_least(0));
  }
};

/// One direction of a link to other ranks.
struct MachineLink {
  double bandwidth = 0;
  double latency = 0;
  std::optional<config::Curve> efficiency;

  template <class V>
  void fields(V& v) {
    v("bandwidth", bandwidth, "[bytes/s] rate of the link in one direction", config::positive());
    v("latency", latency, "[s] duration of one step of a collective that moves no data", config::at_least(0));
    v("efficiency", efficiency,
      "share of the bandwidth as a function of the bytes that a rank sends over this link in a collective",
      config::positive());
  }
};

/// The link between a rank's device and its host's memory, for copies to and from page-locked memory.
struct HostLink {
  double to_host = 0, to_device = 0;
  double latency = 0;

  template <class V>
  void fields(V& v) {
    v("to_host", to_host, "[bytes/s] measured or expected rate of offloads", config::positive());
    v("to_device", to_device, "[bytes/s] measured or expected rate of restores", config::positive());
    v("latency", latency, "[s] startup time of one copy", config::at_least(0));
  }
};

/// The network between nodes: a fat tree in which each leaf switch carries one rail.
struct Topology {
  std::optional<int64_t> rails, switch_radix;
  double oversubscription = 1;

  template <class V>
  void fields(V& v) {
    v("rails", rails, "number of network adapters of a node; none: one per rank", config::at_least(1));
    v("switch_radix", switch_radix,
      "number of ports of a switch, half of which lead to nodes; none: all nodes are on one switch",
      config::at_least(2), config::divisible_by(2));
    v("oversubscription", oversubscription,
      "ratio of a leaf switch's bandwidth to nodes and its bandwidth to other switches", config::at_least(1));
  }
};

/// Slowdown of work while other work runs on the same device.
struct Contention {
  int64_t communication_sms = 0;
  double collective_beside_product = 1, product_beside_copy = 1;

  template <class V>
  void fields(V& v) {
    v("communication_sms", communication_sms,
      "number of SMs (streaming multiprocessors) that a collective takes from concurrent products",
      config::at_least(0));
    v("collective_beside_product", collective_beside_product, "relative speed of a collective while products run",
      config::positive());
    v("product_beside_copy", product_beside_copy, "relative speed of products while an offload or a restore runs",
      config::positive());
  }
};

/// Section `machine` of a cluster file. complete() fills in default values of optional members and lists the assumed
/// values.
struct Machine {
  std::string name, source;
  int64_t nodes = 0, ranks_per_node = 0;
  MachineDevice device = MachineDevice::cuda;
  std::optional<int64_t> domain;
  config::ByteSize memory;
  std::optional<config::ByteSize> host_memory;
  Topology topology;
  Peak peak;
  int64_t sms = 0;
  std::optional<double> sustained;
  std::optional<ProductEfficiency> dense, grouped;
  std::optional<AttentionEfficiency> attention;
  double memory_bandwidth = 0;
  std::optional<config::Curve> memory_efficiency;
  std::optional<double> launch, operation, collective_start;
  std::optional<HostLink> host;
  std::optional<MachineLink> inside, network;
  std::optional<Contention> contention;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::positive;
    v("name", name, "name of the machine");
    v("source", source, "sources of the numbers in this section");
    v("nodes", nodes, "number of nodes, which is also the maximum for a job", config::between(1, 1 << 20));
    v("ranks_per_node", ranks_per_node, "number of ranks (devices) of a node", config::between(1, 1 << 12));
    v("device", device, "device of a rank, for which steps are predicted if the recipe does not set `device`");
    v("domain", domain, "number of ranks that the link `inside` connects; none: the ranks of a node", at_least(1));
    v("memory", memory, "memory of a rank's device, at least 1 MiB", positive());
    v("host_memory", host_memory, "host memory for each rank, at least 1 MiB", positive());
    v("topology", topology, "network between nodes");
    v("peak", peak, "peak rates of matrix products");
    v("sms", sms, "number of streaming multiprocessors of a device", config::between(1, 1 << 14));
    v("sustained", sustained,
      "share of its short-run rate that a product keeps in a long run (lower clocks under load)", positive());
    v("dense", dense, "efficiency of single matrix products");
    v("grouped", grouped, "efficiency of matrix products of several experts in one kernel");
    v("attention", attention, "efficiency of attention");
    v("memory_bandwidth", memory_bandwidth, "[bytes/s] rate of the device's memory, reads and writes together",
      positive());
    v("memory_efficiency", memory_efficiency,
      "share of memory_bandwidth as a function of the bytes that a kernel reads and writes", positive());
    v("launch", launch, "[s] gap between two kernels", at_least(0));
    v("operation", operation,
      "[s] time in which the host issues an operation; a GPU waits for its host if operations are shorter; a CPU adds "
      "this time to each operation",
      at_least(0));
    v("collective_start", collective_start, "[s] delay before a collective moves its first byte", at_least(0));
    v("host", host, "link to the host's memory");
    v("inside", inside, "link between the ranks of a domain; its bandwidth is that of one rank");
    v("network", network,
      "link between domains; its bandwidth is that of one network adapter (a node has topology.rails of them)");
    v("contention", contention, "slowdown of work while other work runs");
  }
};

/// Checks the rules between the keys of the section that was read at `path`. Adds a problem for each of these:
/// - inconsistent sizes, missing links, no peak
/// - rates, times, shares and sizes of memory in wrong units
/// - a network that is far faster than the link inside a domain
/// - a collective that takes all SMs
/// - a curve of efficiency that falls or begins at size 0
/// - a curve (except of attention) that rises so fast that more work would take less time
void check_machine(const Machine& machine, const std::string& path, config::Problems& problems);

/// A machine with values for all optional members, with these exceptions: links that the machine does not use, the size
/// of host memory, the radix of switches, and peaks. `assumptions` has one text for each assumed value, except for
/// `domain` and topology.rails, whose default is ranks_per_node. If the size of host memory is unknown, another text
/// says that plans offload no more than the recipe.
struct CompleteMachine {
  Machine machine;
  std::vector<std::string> assumptions;
};
/// Fills in the members that are not set in `machine`. The default curves of kernels were measured on one H100
/// (docs/reports/gpu-h100.md). The values for large sizes in the default curves of links are from arXiv 2603.07685.
CompleteMachine complete(const Machine& machine);

}  // namespace hexad::plan
