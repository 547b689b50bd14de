// Seconds of single operations of a training step: matrix products, collectives, copies. A price is the time of an
// operation that runs alone on a measured or a described cluster (docs/planning.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/dtype.h"
#include "tools/plan/cluster.h"
#include "tools/plan/measured_kernels.h"

namespace hexad::plan {

/// A matrix product, or a grouped product of several experts. For each group, it multiplies rows x inputs by a weight
/// of inputs x outputs. The input gradient and the weight gradient have the same rows, inputs and outputs as the
/// forward product.
struct Product {
  base::Dtype dtype = base::Dtype::bf16;  // type of the operands and the result
  GemmPass pass = GemmPass::forward;
  double rows = 0, inputs = 0, outputs = 0;  // rows: sum over all groups
  double groups = 1;                         // 1: a single (dense) product
  double extra_bytes = 0;  // additional bytes moved, such as f32 gradients to which the result is added
};

/// Placement of a process group's ranks. Each node of the group has the same number of the group's ranks. A group
/// without this property is priced as if each rank were alone on a node. In this case, uneven_nodes is set.
struct GroupPlace {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;   // ranks of this group on one node: ranks / nodes
  int64_t groups = 1;           // number of groups on the same node that communicate at the same time
  int64_t ranks_in_domain = 0;  // ranks of this group in one domain; 0: ranks_per_node x min(nodes, nodes of a domain)
  int64_t node_span = 0;        // number of nodes from the group's first to its last node; 0: `nodes`
  int64_t uneven_nodes = 0;     // number of nodes if the nodes have different numbers of the group's ranks; otherwise 0
};

/// Prices of one cluster. Uses measured curves if the cluster has them, otherwise the cluster's description. Copies of
/// the object share its tables. All functions only look up tables, so several threads may call them at the same time.
class Prices {
 public:
  /// Makes the tables. Throws Error(usage) if the cluster has neither measurements nor a description.
  explicit Prices(const Cluster& cluster);

  /// Returns the seconds of a product whose groups have equal numbers of rows; 0 without rows. Throws Error(usage) if
  /// the cluster has no rate for the element type.
  ///
  /// Described clusters: the longest of three times, plus the time of extra_bytes and the launch.
  ///   - FLOPs (2 x rows x inputs x outputs) at the rate peak x sustained x efficiency (ProductEfficiency at rows /
  ///     groups).
  ///   - The same FLOPs with the greatest efficiency, on the SMs that have a tile. Each tile of 128 x 128 of the result
  ///     occupies one SM (NVIDIA, "Matrix Multiplication Background User's Guide": tile quantization).
  ///   - Bytes of operands and result divided by the memory bandwidth (the roofline: Williams et al., CACM 2009).
  ///
  /// Below the first point of its curve, a group takes the time of that point.
  ///
  /// Measured clusters: uses the measured product of this element type with the nearest inputs x outputs (as a ratio).
  /// Among products with these sizes, prefers the pass of `product`. For a dense product, uses measurements of one
  /// expert if there are any. For a grouped product, uses measurements of several experts if there are any. The result
  /// is the time of one expert with rows / groups rows, times `groups`, scaled by the size of the weight. Extra bytes
  /// cost as much as in memory_bound().
  double product(const Product& product) const;

  /// Returns the seconds of a product whose largest group has `largest` rows (at least rows / groups). Described
  /// clusters: the time of equal groups times 1 + skew x (1 - mean / largest). The time grows more slowly than
  /// `largest`, because tiles of a large group are spread over all SMs. Measured clusters: the time of equal groups.
  /// `product` has this rank's rows, so callers must account for skew between ranks.
  double product(const Product& product, double largest) const;

  /// Returns the seconds of a fused attention kernel; 0 without FLOPs. Throws Error(usage) like product().
  ///
  /// Described clusters: FLOPs at the rate peak x sustained x efficiency(sequence) x d/(d + half_head) x (128 +
  /// half_head)/128, plus a launch. d is the head size. The efficiency is linear between points and constant beyond
  /// them. The product of the factors after `sustained` counts as at most 1.
  ///
  /// Measured clusters: KernelCurves::attention(). The rate is half the best rate of the largest measured product of
  /// this element type if attention was not measured. Forward uses the product's forward pass, and backward uses its
  /// input gradient.
  double attention(const Attention& attention) const;

  /// Returns the seconds of kernels that mainly read and write memory: pointwise kernels, norms, optimizers, gathers by
  /// index. `bytes` counts bytes read and bytes written; 0 bytes take no time. `kernels` is the number of launches that
  /// share the bytes.
  ///
  /// Described clusters: bytes divided by bandwidth x efficiency(bytes of a kernel), plus a launch for each kernel.
  /// Measured clusters: the time of a copy of half the bytes, because a copy reads and writes its bytes.
  double memory_bound(double bytes, double kernels = 1) const;

  /// Returns the seconds of one kernel of a class; 0 without bytes. `dtype` is the dtype of the kernel's first result.
  /// Uses KernelCurves::kernel() on measured clusters. Uses memory_bound() if that function returns none, and on other
  /// clusters.
  double kernel(KernelClass of, base::Dtype dtype, double bytes) const;

  /// Returns the host's seconds for each operation in addition to its kernel: the measured time or, on a described CPU,
  /// machine.operation. The host computes during this time. Returns 0 if the cluster has neither. Also returns 0 for a
  /// described GPU without a measured time: its host works at the same time as the GPU (issuing()).
  double operation() const;
  /// Returns the seconds in which the host of a described GPU issues an operation while the GPU works. Returns 0
  /// without a description, for ranks that compute on CPUs, and if the cluster file has `operation`.
  double issuing() const;
  /// Returns the additional seconds of an operation that a thread of a lane runs; 0 if not measured.
  double handoff() const;

  /// Returns the seconds of a copy of `bytes`: the measured time if this kind was measured. Otherwise, copy and gather
  /// take memory_bound(2 x bytes), and offload and restore take the host link's latency plus bytes over its bandwidth.
  /// Throws Error(usage) if neither a measurement nor a description prices the copy.
  double copy(CopyKind kind, double bytes) const;

  /// Returns the seconds of a collective in which each rank sends `bytes` to other ranks; 0 for one rank or without
  /// bytes. In an all-reduce, a rank sends 2 x (n - 1)/n of the tensor. Throws Error(usage) if the cluster has no link
  /// for the group.
  ///
  /// Described clusters. A domain is the set of ranks that the fast link connects. A group of n ranks has k ranks in
  /// each of D domains. A rank has the share min(1, rails / b) of an adapter if b ranks of a node use the network at
  /// the same time. The bandwidth is divided by the oversubscription if the group spans more nodes than a leaf switch
  /// connects (half its ports).
  ///   - all_to_all: bytes are divided in proportion to the numbers of peers inside and outside the domain. The two
  ///     parts overlap, and the longer part counts. Each step has eight peers (NCCL, src/include/device.h:
  ///     NCCL_MAX_DEV_WORK_P2P_PER_BATCH) and costs one latency.
  ///   - all_gather, reduce_scatter: rings. The fast link carries all bytes. Each adapter carries bytes / k, because k
  ///     rings leave a domain by k adapters. The longer of the two times counts. Latencies: n - D steps inside and
  ///     D - 1 outside (NCCL, src/graph/tuning.cc). With one rank in each domain: log2(n) steps outside (PAT, NCCL
  ///     2.23).
  ///   - all_reduce: a reduce_scatter and an all_gather of half the bytes each. Latencies: the lesser of two sums. One
  ///     sum has the latencies of both. The other sum has 2 x (k - 1) steps inside and 2 x log2(D) outside (trees, NCCL
  ///     2.4).
  ///   - send: bytes over the link of the group, and one latency.
  ///
  /// Every collective starts with collective_start. The efficiency of a collective depends on the bytes that a rank
  /// sends over the link. Below the first point of a curve, the efficiency of that point applies.
  ///
  /// Measured clusters: the time of nearest_link() at `bytes`. The network is shared as in the measurement.
  double collective(Collective operation, const GroupPlace& place, double bytes) const;

  /// Returns the speed of `lane` while the lanes `beside` also run, relative to the speed of `lane` alone: above 0, at
  /// most 1. Described clusters: a product loses the SMs of a concurrent collective. A collective that runs with
  /// products, and a product that runs with copies, slow down by the factors in `contention`. Entries of `slowdowns`
  /// take precedence. For several lanes, see schedule::Rates::alpha().
  double slowdown(schedule::Lane lane, schedule::LaneSet beside) const;

  /// Returns the speed of products on `share` of a rank's threads or multiprocessors, relative to the speed on all of
  /// them. Described clusters: `share`. Measured clusters: the speed on this share of the threads, as in rates_of().
  double speed_of_share(double share, base::Dtype dtype) const;

  /// Returns the cores that the ranks of a node share if `ranks` ranks of the node are in the job. Returns none if the
  /// cluster does not state the cores of a node.
  std::optional<schedule::SharedCores> cores(int64_t ranks) const;

  /// Returns the peak rate of a rank's products in FLOP/s: the described peak, or else the highest measured rate.
  /// Returns 0 if the cluster has neither for the dtype.
  double peak(base::Dtype dtype) const;

  /// Returns the number of ranks that the fast link connects: the described domain, or the ranks of a node if no domain
  /// is described.
  int64_t domain() const;

  /// Return the number of nodes of the cluster, and the number of ranks on each node.
  int64_t nodes() const;
  int64_t ranks_per_node() const;

 private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

/// Returns one text for each curve and rule that Prices(cluster) assumes because the cluster does not give it. Callers
/// print these texts with their results.
std::vector<std::string> assumptions(const Cluster& cluster);

}  // namespace hexad::plan
