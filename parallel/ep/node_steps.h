// The all-to-all of a chunk in two steps: inside the nodes, then between them.
#pragma once

#include <functional>
#include <vector>

#include "parallel/comm/node_groups.h"

namespace hexad::ep {

using tensor::Tensor;

/// Rows that lie in blocks, and the order in which these go on.
struct BlockOrder {
  std::vector<int64_t> rows;  // of each block
  std::vector<int> order;     // blocks; empty: as they lie

  /// Returns the rows in that order.
  Tensor apply(const Tensor& lying, device::Stream& stream) const;
  /// Returns ordered rows to where they lay.
  Tensor undo(const Tensor& ordered, device::Stream& stream) const;
};

/// A rank's place is its number among the ranks of its node. In order:
///   inside   inside the node: each rank gets what the node sends to the ranks of its own place on all nodes.
///            Rows leave sorted by destination's place, then node; they arrive sorted by source, then
///            destination's node
///   between  sorts them by destination's node
///   across   between nodes, among the ranks of one place: each node's rows in one message. They arrive sorted by
///            source's node, then place
///   arrival  sorts them by source rank
/// The way back undoes each step. (The hierarchical all-to-all of DeepSpeed-MoE, Rajbhandari et al. 2022; 2DH of Tutel,
/// Hwang et al. 2023.)
struct NodeSteps {
  comm::Splits inside, across;
  BlockOrder between, arrival;
};

/// Rows of a chunk that one rank of the all-to-all sends to another.
using RowsBetween = std::function<int64_t(int source, int destination)>;

/// Steps of rank `rank` of a grid with two levels.
NodeSteps node_steps(const comm::NodeGrid& grid, int rank, const RowsBetween& rows);
/// All ranks in the order in which their rows leave: by place, then node.
std::vector<int> destinations_by_place(const comm::NodeGrid& grid);

}  // namespace hexad::ep
