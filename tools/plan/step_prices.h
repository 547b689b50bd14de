// Seconds of the recorded operations of a step on a cluster.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/traffic.h"
#include "tools/plan/prices.h"
#include "tools/plan/step_simulation.h"

namespace hexad::plan {

/// Prices of the operations of steps, and the node of each rank.
class StepPrices {
 public:
  /// Fills nodes with `world` ranks in order. Throws Error(usage) if the cluster has fewer than `world` ranks, or has
  /// neither measurements nor a description.
  StepPrices(const Cluster& cluster, int world);
  /// Places ranks on the given nodes.
  StepPrices(Prices prices, std::vector<int> node_of_rank)
      : prices_(std::move(prices)), node_of_rank_(std::move(node_of_rank)) {}

  /// Returns the node of each rank.
  const std::vector<int>& node_of_rank() const { return node_of_rank_; }
  const Prices& prices() const { return prices_; }
  /// Returns the placement of the group that consists of `ranks`, as seen by `rank`, which must be one of them.
  GroupPlace place_of(const std::vector<int>& ranks, int rank) const;
  /// Returns the largest number of ranks on one node.
  int64_t ranks_of_fullest_node() const;
  /// Returns the relative speeds of kernels and communication that run at the same time, and the cores of a node. The
  /// `ranks_of_node` ranks of the job on the node share these cores.
  StepContention contention(const comm::Priorities& priorities, int64_t ranks_of_node) const;
  /// Returns the number of consecutive nodes that the fast link connects.
  int64_t nodes_of_domain() const;
  /// Returns the domain of the fast link of each rank.
  std::vector<int> domain_of_rank() const;

 private:
  const Prices prices_;
  std::vector<int> node_of_rank_;
};

/// Returns the seconds of an attention kernel that runs alone on the machine.
double seconds_of(const device::AttentionWork& work, const Prices& prices);

/// Prices the operations of one record. `prices` and the record must outlive the object.
class RecordPrices {
 public:
  RecordPrices(const StepPrices& prices, const StepRecord& record);

  /// Prices collectives of the class `traffic` as if their groups had 1 / `times` as many ranks. The reason is that the
  /// job has `times` times as many pipeline stages as the record. Ranks of a group on the same node stay on one node,
  /// as far as the new size of the group allows.
  void shrink_groups(comm::TrafficClass traffic, int64_t times);

  /// Returns the seconds of an operation that runs alone on the machine. The time of a kernel or copy includes the
  /// host's time for an operation. The time of an operation on a lane other than compute includes the handoff to that
  /// lane. Throws Error(usage) that names the missing rate if the cluster lacks a rate, and std::logic_error if the
  /// operation is an unknown collective.
  double seconds(const device::Issue& issue) const { return seconds(issue, issue.work); }
  /// Like seconds(issue), for an operation that differs from `issue` only in its work.
  double seconds(const device::Issue& issue, const device::Work& work) const;
  /// Returns a text such as "dp (12 ranks on 2 nodes)" for each uneven group that has collectives. The nodes of an
  /// uneven group have different numbers of the group's ranks (GroupPlace::uneven_nodes).
  std::vector<std::string> uneven_groups() const;
  /// Returns the bytes of a communication that leave the domain of the fast link; for a ring, the mean over its ranks.
  double sent_over_network(const device::Issue& issue) const;

 private:
  GroupPlace place_of(const device::Issue& issue) const;
  double communication(const device::Issue& issue, const device::CommunicationWork& work) const;

  const StepPrices& prices_;
  const StepRecord& record_;
  std::vector<std::optional<GroupPlace>> places_;  // place of each group; none if only pairs of its ranks communicate
};

}  // namespace hexad::plan
