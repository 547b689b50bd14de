// Hierarchical all-to-all of a chunk: inside the nodes, then between nodes.
#pragma once

#include <functional>
#include <vector>

#include "parallel/comm/node_groups.h"

namespace hexad::ep {

using tensor::Tensor;

/// Reordering of rows by blocks.
struct BlockOrder {
  std::vector<int64_t> rows;  // number of rows of each block
  std::vector<int> order;     // blocks in their new order; empty: the order does not change

  /// Returns the rows in the new order.
  Tensor apply(const Tensor& lying, device::Stream& stream) const;
  /// Inverse of apply().
  Tensor undo(const Tensor& ordered, device::Stream& stream) const;
};

/// Steps of a hierarchical all-to-all. A rank's place is its number among the ranks of its node. The steps are, in
/// order:
///   inside   exchange inside the node: each rank receives its node's rows for the ranks of its own place on all nodes.
///            Rows are sent sorted by the destination's place, then node. They arrive sorted by source, then by the
///            destination's node
///   between  sorts the rows by the destination's node
///   across   exchange between nodes, among the ranks of one place, with one message to each node. Rows arrive sorted
///            by the source's node, then place
///   arrival  sorts the rows by source rank
/// The return undoes the steps in reverse order. (The hierarchical all-to-all of DeepSpeed-MoE, Rajbhandari et al.
/// 2022; 2DH of Tutel, Hwang et al. 2023.)
struct NodeSteps {
  comm::Splits inside, across;
  BlockOrder between, arrival;
};

/// Number of rows of a chunk that one rank of the all-to-all sends to another rank.
using RowsBetween = std::function<int64_t(int source, int destination)>;

/// Returns the steps of rank `rank` of a grid with two levels.
NodeSteps node_steps(const comm::NodeGrid& grid, int rank, const RowsBetween& rows);
/// Returns all ranks, sorted by place, then node: the order in which their rows are sent.
std::vector<int> destinations_by_place(const comm::NodeGrid& grid);

}  // namespace hexad::ep
