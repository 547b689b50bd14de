// Speeds of a job's machines: links, kernels, and the slowdown of work that runs at the same time. `hexad profile`
// measures these speeds and writes a YAML file (docs/profile.md). The file may contain measurements, a description of
// machines that were not measured (docs/planning.md), or both. The planner and the simulator read the file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/config/constraints.h"
#include "framework/config/curve.h"
#include "framework/schedule/rates.h"
#include "tools/plan/machine_description.h"

namespace hexad::plan {

enum class Collective : uint8_t { all_to_all, all_gather, reduce_scatter, all_reduce, send };
constexpr auto enum_names(Collective) {
  return std::to_array<std::pair<Collective, std::string_view>>({{Collective::all_to_all, "all_to_all"},
                                                                 {Collective::all_gather, "all_gather"},
                                                                 {Collective::reduce_scatter, "reduce_scatter"},
                                                                 {Collective::all_reduce, "all_reduce"},
                                                                 {Collective::send, "send"}});
}

/// Kind of a group.
///   - intra: several ranks of one node
///   - inter: one rank of each of several nodes
///   - all: all ranks of the job
enum class GroupKind : uint8_t { intra, inter, all };
constexpr auto enum_names(GroupKind) {
  return std::to_array<std::pair<GroupKind, std::string_view>>(
      {{GroupKind::intra, "intra"}, {GroupKind::inter, "inter"}, {GroupKind::all, "all"}});
}

enum class Element : uint8_t { f32, bf16 };
constexpr auto enum_names(Element) {
  return std::to_array<std::pair<Element, std::string_view>>({{Element::f32, "f32"}, {Element::bf16, "bf16"}});
}
inline base::Dtype dtype_of(Element element) { return element == Element::bf16 ? base::Dtype::bf16 : base::Dtype::f32; }

using schedule::GemmPass;

/// Kind of a copy.
///   - copy: tensor to tensor
///   - gather: rows by index
///   - offload: into offload memory
///   - restore: from offload memory
enum class CopyKind : uint8_t { copy, gather, offload, restore };
constexpr auto enum_names(CopyKind) {
  return std::to_array<std::pair<CopyKind, std::string_view>>({{CopyKind::copy, "copy"},
                                                               {CopyKind::gather, "gather"},
                                                               {CopyKind::offload, "offload"},
                                                               {CopyKind::restore, "restore"}});
}

/// Pass to which an attention measurement belongs.
enum class AttentionPass : uint8_t { forward, backward };
constexpr auto enum_names(AttentionPass) {
  return std::to_array<std::pair<AttentionPass, std::string_view>>(
      {{AttentionPass::forward, "forward"}, {AttentionPass::backward, "backward"}});
}

/// Kind of a kernel that is neither a product nor attention. Kernels of the same kind take about the same time per
/// byte.
enum class KernelClass : uint8_t { pointwise, activation, gelu, norm, reduction, permute, router, loss, optimizer };
constexpr auto enum_names(KernelClass) {
  return std::to_array<std::pair<KernelClass, std::string_view>>({{KernelClass::pointwise, "pointwise"},
                                                                  {KernelClass::activation, "activation"},
                                                                  {KernelClass::gelu, "gelu"},
                                                                  {KernelClass::norm, "norm"},
                                                                  {KernelClass::reduction, "reduction"},
                                                                  {KernelClass::permute, "permute"},
                                                                  {KernelClass::router, "router"},
                                                                  {KernelClass::loss, "loss"},
                                                                  {KernelClass::optimizer, "optimizer"}});
}

using schedule::Lane;

/// Curve of seconds (y) over sizes (x, ascending). The help text of each curve states the unit of x.
using config::Curve;

/// Date and machine of the measurement. The texts (except the date 'assumed'), `seconds` and `cores` inform the reader,
/// and do not affect predictions.
struct Origin {
  std::string date, hexad, processor, instructions, products;
  double seconds = 0;
  int64_t nodes = 1, ranks_per_node = 1, cores = 1, threads = 1;
  std::optional<int64_t> node_cores;
  schedule::MeasuredBy by = schedule::MeasuredBy::all_ranks;
  double waiting = 0;

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("date", date, "time of the measurement in UTC; 'assumed' if nothing was measured");
    v("seconds", seconds, "[s] duration of the measurement", at_least(0));
    v("hexad", hexad, "version of the program");
    v("processor", processor, "processor of the first node");
    v("instructions", instructions, "instruction set of the kernels");
    v("products", products, "library that computes the matrix products");
    v("nodes", nodes, "number of nodes", config::between(1, 1 << 20));
    v("ranks_per_node", ranks_per_node, "number of ranks on each node", config::between(1, 1 << 12));
    v("cores", cores, "cores that a rank may run on, shared with the other ranks of its node", at_least(1));
    v("threads", threads, "number of threads of each rank's kernels", at_least(1));
    v("node_cores", node_cores, "cores that the ranks of a node may use together; none: ranks share no cores",
      at_least(1));
    v("by", by, "ranks of a node that worked at the same time: all_ranks (hexad profile) or one_rank");
    v("waiting", waiting, "cores that a rank uses while it waits for other ranks, from 0 to 1", config::probability());
  }
};

/// Measured rate of large matrix products (kernels::sample_gemm_rate()). Predictions and training compute the MFU from
/// this peak. All ranks compute at the same time.
struct MeasuredPeak {
  Element element = Element::f32;
  double flops_per_second = 0;

  template <class V>
  void fields(V& v) {
    v("element", element, "element type of the operands");
    v("flops_per_second", flops_per_second, "[FLOP/s] rate of one rank", config::positive());
  }
};

/// Measured times of a collective. All groups of the kind `group` with `ranks` ranks run the collective at the same
/// time, without other work.
struct MeasuredLink {
  Collective operation = Collective::all_to_all;
  GroupKind group = GroupKind::all;
  int64_t ranks = 2, nodes = 1;
  Curve points;

  template <class V>
  void fields(V& v) {
    v("operation", operation,
      "operation on f32 elements; send: each rank sends to the next rank, all at the same time");
    v("group", group, "intra: ranks of one node; inter: one rank per node; all: every rank");
    v("ranks", ranks, "number of ranks in a group", config::at_least(2));
    v("nodes", nodes, "number of nodes of a group", config::at_least(1));
    v("points", points, "[bytes that a rank sends to other ranks, seconds], ascending", config::positive());
  }
};

/// Measured times of the matrix products of `experts` equally loaded experts. All ranks compute at the same time.
struct MeasuredProduct {
  Element element = Element::f32;
  GemmPass pass = GemmPass::forward;
  int64_t experts = 1, inputs = 1, outputs = 1;
  Curve points;

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("element", element, "type of the operands");
    v("pass", pass, "forward, input_gradient or weight_gradient");
    v("experts", experts, "number of experts in the grouped product", at_least(1));
    v("inputs", inputs, "number of columns of the input", at_least(1));
    v("outputs", outputs, "number of columns of the result of the forward product", at_least(1));
    v("points", points, "[total rows of all experts, seconds], ascending", config::positive());
  }
};

/// Measured times of causal attention in one sequence. All ranks compute at the same time.
struct MeasuredAttention {
  Element element = Element::f32;
  AttentionPass pass = AttentionPass::forward;
  int64_t heads = 1, head_size = 1;
  Curve points;

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("element", element, "type of queries, keys and values");
    v("pass", pass, "forward or backward");
    v("heads", heads, "number of query heads, equal to the number of key heads", at_least(1));
    v("head_size", head_size, "number of elements of a head", at_least(1));
    v("points", points, "[positions of the sequence, seconds for all heads], ascending", config::positive());
  }
};

/// Measured times of the kernels of a class. All ranks compute at the same time.
struct MeasuredKernels {
  KernelClass of = KernelClass::pointwise;
  Element element = Element::f32;
  Curve points;

  template <class V>
  void fields(V& v) {
    v("class", of, "pointwise, activation, gelu, norm, reduction, permute, router, loss or optimizer");
    v("element", element, "element type of the first result");
    v("points", points, "[bytes read and written, seconds], ascending", config::positive());
  }
};

/// Measured times of copies. All ranks copy at the same time.
struct MeasuredCopy {
  CopyKind kind = CopyKind::copy;
  Curve points;

  template <class V>
  void fields(V& v) {
    v("kind", kind,
      "copy, gather (rows by index), offload (to file-backed memory) or restore (from file-backed memory)");
    v("points", points, "[bytes, seconds], ascending", config::positive());
  }
};

/// Measured slowdown: alpha(`of`, `beside`) of MPMoE, Fig. 3.
struct MeasuredSlowdown {
  Lane of = Lane::compute;
  std::vector<Lane> beside;
  double speed = 1;

  template <class V>
  void fields(V& v) {
    v("of", of, "work that is slowed down; inter: communication between nodes; intra: communication inside a node");
    v("beside", beside, "work that runs at the same time as `of`", config::non_empty());
    v("speed", speed,
      "speed of `of` while `beside` runs, relative to the speed of `of` alone; about 1 if not slowed down",
      config::positive());
  }
};

/// Measured speed of a grouped product on fewer threads than a rank has (schedule.moe.compute_share).
struct MeasuredThreads {
  int64_t threads = 1;
  double speed = 1;

  template <class V>
  void fields(V& v) {
    v("threads", threads, "number of threads that compute the product, less than measured.threads",
      config::at_least(1));
    v("speed", speed, "speed of the product, relative to its speed on all threads, while no other work runs",
      config::positive());
  }
};

/// Burst that a traffic shaper allows on a link that was idle before. `hexad profile` cannot measure the burst, because
/// the links are not idle between measurements.
struct LinkBurst {
  GroupKind group = GroupKind::inter;
  double seconds = 0;

  template <class V>
  void fields(V& v) {
    v("group", group, "inter: links between nodes; intra: links inside nodes");
    v("seconds", seconds,
      "[s] size of a burst, as the time that its bytes take at the usual rate of the link; an idle link needs the same "
      "time to regain the burst; 0: no burst",
      config::at_least(0));
  }
};

/// Longest legal value of Cluster::operation and Cluster::handoff, in seconds. Longer times were probably given in
/// microseconds.
inline constexpr double longest_operation = 0.01;

/// Largest legal ratio of a measured time to the time of a larger size of the same curve. More work should not take
/// less time, but measurements have noise. A kernel for few rows can also take longer than a kernel for more rows. The
/// largest ratio in recipes/clusters is 1.8.
inline constexpr double largest_fall = 2;

struct Cluster {
  Origin measured;
  std::vector<MeasuredPeak> peaks;
  std::vector<MeasuredLink> links;
  std::vector<MeasuredProduct> products, dense_products;
  std::vector<MeasuredAttention> attention;
  std::vector<MeasuredKernels> kernels;
  std::vector<MeasuredCopy> copies;
  std::optional<double> operation, handoff;
  std::vector<MeasuredSlowdown> slowdowns;
  std::vector<MeasuredThreads> fewer_threads;
  std::vector<MeasuredSlowdown> capped_slowdowns;
  std::vector<LinkBurst> bursts;
  std::optional<Machine> machine;

  template <class V>
  void fields(V& v) {
    v("measured", measured, "date and machine of the measurement");
    v("peaks", peaks, "rates of large square products, the peaks for MFU; none: the highest rate of `products`");
    v("links", links, "communication while no other work runs");
    v("products", products, "grouped matrix products while no other work runs");
    v("dense_products", dense_products,
      "forward products with one kernel call for each expert, as with schedule.moe.gemms: dense");
    v("attention", attention, "attention while no other work runs");
    v("kernels", kernels, "all other kernels while no other work runs");
    v("copies", copies, "copies while no other work runs");
    v("operation", operation, "[s] host time of an operation in addition to its kernel; none: not measured",
      config::at_least(0));
    v("handoff", handoff,
      "[s] time of an operation that a thread of a lane runs, in addition to `operation`; none: not measured",
      config::at_least(0));
    v("slowdowns", slowdowns, "speeds of work that runs at the same time");
    v("fewer_threads", fewer_threads, "speeds of grouped products on fewer threads, ascending by threads");
    v("capped_slowdowns", capped_slowdowns, "like `slowdowns`, but products use one thread less than the rank has");
    v("bursts", bursts, "bursts of links that a traffic shaper limits; given by the user, not measured");
    // Must be the last key, because to_yaml() can cut it off.
    v("machine", machine, "description of machines that were not measured");
  }
};

/// Reads a cluster file and applies `overrides`. On the command line, each override has the prefix "cluster.", which
/// `overrides` must omit. Throws Error(usage) that lists every problem of the file with its line. Messages show
/// overrides with this prefix.
Cluster load_cluster(const std::string& path, const std::vector<std::string>& overrides = {});
/// Returns the position of the key `key` (such as "machine.peak.f64") in the cluster file, such as "c.yaml:5". Returns
/// the position of the innermost existing section on the key's path if the file lacks the key. Returns `path` if the
/// file has no such section, or if `key` is empty.
std::string position_in_cluster(const std::string& path, const std::vector<std::string>& overrides,
                                std::string_view key);
/// Returns the text of a cluster file from which load_cluster() reads `cluster`. Every number is written exactly.
std::string to_yaml(const Cluster& cluster);

/// Returns a cluster without measurements: `nodes` nodes of `ranks_per_node` ranks, with the curves of
/// schedule::Rates::defaults() and without slowdown. Callers must tell the user about this assumption.
Cluster default_cluster(int64_t nodes, int64_t ranks_per_node);

/// A process group. Cost::group of a schedule's tasks refers to the group by name.
struct GroupShape {
  std::string name;
  int64_t ranks, nodes;
  bool operator==(const GroupShape&) const = default;
};

/// Request for rates: groups, element type and sizes.
struct RatesQuery {
  std::vector<GroupShape> groups;            // groups whose links must have been measured
  std::vector<GroupShape> further_groups{};  // groups whose links are missing in Rates::links if they were not measured
  Element element = Element::f32;
  int64_t inputs = 0, outputs = 0;  // sizes of an expert's product; 0: the sizes of the largest measured product
  CopyKind copy = CopyKind::copy;
  int64_t ranks_per_node = 0;  // ranks that share the cores of a node in the job; 0: as many as were measured
};

/// Returns the measured link that prices `operation` of `group`; null if there is none. Preferences by group:
/// - a group on one node uses only intra links
/// - a group with one rank per node prefers inter links to links of all ranks
/// - other groups prefer links of all ranks to inter links
///
/// Among equally preferred links, chooses the link with the nearest number of ranks (as a ratio). Of two equally near
/// numbers, chooses the larger number.
const MeasuredLink* nearest_link(const Cluster& cluster, Collective operation, const GroupShape& group);

/// Returns the factor by which the bytes of `group` are multiplied before the curve of `link` gives their time. In an
/// all-to-all of n ranks on N nodes, the share (n - n/N) / (n - 1) of a rank's bytes leaves the node. The factor is
/// this share in `group`, divided by this share in the group of `link`. The factor is 1 for other operations, and if
/// one of the groups is on a single node.
double size_factor(const MeasuredLink& link, const GroupShape& group);

/// Returns the curve of `points`. The curve keeps the rate of the last point for all larger sizes in two cases:
/// - The last point has a lower rate than the previous point. Extrapolation from these two points would lower the rate
///   further, but real links and kernels keep their rate.
/// - The last point takes no longer than the previous point. One of these measured times is wrong, and the extrapolated
///   rate would be infinite.
schedule::TimeCurve steady_curve(const Curve& points);

/// Returns the cores that the ranks of a node share (Rates::cores); none if measured.node_cores is not set.
/// `ranks_per_node` has the same meaning as in RatesQuery.
std::optional<schedule::SharedCores> shared_cores(const Origin& measured, int64_t ranks_per_node = 0);

/// Returns the speeds of products on 1, 2, ... of `threads` threads, relative to the speed on all threads
/// (Rates::speed_of_threads). The speed is linear between the measured numbers of threads. The speed is proportional to
/// the number of threads if no smaller number was measured.
std::vector<double> speeds_of_threads(int64_t threads, std::span<const MeasuredThreads> fewer);

/// Returns the rates for the simulator. nearest_link() chooses the measured link of each collective and group. Product
/// times come from the measured products of the query's element type with the nearest inputs x outputs (as a ratio).
/// These times are scaled by the size of the weight. A pass that was not measured gets the times of the first measured
/// pass of the same shape. A measured slowdown whose speed is above 1 counts as a speed of 1. Throws Error(usage) that
/// names the first missing entry of the cluster.
schedule::Rates rates_of(const Cluster& cluster, const RatesQuery& query);
/// Returns the passes that were not measured. rates_of() prices the products of such a pass like the products of
/// another pass. Throws Error(usage) if the cluster has no products of the element type.
std::vector<GemmPass> unmeasured_passes(const Cluster& cluster, const RatesQuery& query);

}  // namespace hexad::plan
