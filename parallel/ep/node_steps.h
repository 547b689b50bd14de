// Hierarchical all-to-all of a chunk: first inside the nodes, then between nodes.
#pragma once

#include <functional>
#include <vector>

#include "parallel/comm/node_groups.h"

namespace hexad::ep {

using tensor::Tensor;

/// Permutation of blocks of rows.
struct BlockOrder {
  std::vector<int64_t> rows;  // number of rows of each block
  std::vector<int> order;     // indices of the blocks in their new order; empty: no permutation

  /// Returns the rows in the new order.
  Tensor apply(const Tensor& lying, device::Stream& stream) const;
  /// Returns the rows in the original order: the inverse of apply().
  Tensor undo(const Tensor& ordered, device::Stream& stream) const;
};

/// Steps of a hierarchical all-to-all. The place of a rank is its index among the ranks of its node. The steps are, in
/// order:
///   inside   exchange inside the node: each rank receives those rows of its node that go to ranks of its own place
///            on any node. Rows are sent sorted by the place, then the node of their destination. They arrive sorted
///            by source, then by the node of their destination
///   between  sorts the rows by the node of their destination
///   across   exchange between nodes, among ranks of the same place, with one message to each node. Rows arrive sorted
///            by the node, then the place of their source
///   arrival  sorts the rows by source rank
/// To return rows, the steps are undone in reverse order. DeepSpeed-MoE (Rajbhandari et al. 2022) uses this method.
/// Tutel (Hwang et al. 2023) calls it 2DH.
struct NodeSteps {
  comm::Splits inside, across;
  BlockOrder between, arrival;
};

/// Function that returns the number of rows of a chunk that one rank of the all-to-all sends to another.
using RowsBetween = std::function<int64_t(int source, int destination)>;

/// Returns the steps of rank `rank` in a grid with two levels.
NodeSteps node_steps(const comm::NodeGrid& grid, int rank, const RowsBetween& rows);
/// Returns all ranks sorted by place, then by node: the order in which their rows are sent.
std::vector<int> destinations_by_place(const comm::NodeGrid& grid);

}  // namespace hexad::ep
