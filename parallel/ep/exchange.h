// Exchanges that send rows to the experts and back. Each step is the adjoint of the corresponding step in the other
// direction.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_counts.h"

namespace hexad::ep {

/// Rows in flight. `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};

/// Sends `rows` [W, D] to the ranks of their experts. `rows` are in the order of their destinations. Returns the rows
/// received, [R, D], in the order of the ranks. In a group of one rank, returns `rows` itself.
InFlight send_to_experts(const MovedRows& moved, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream);
/// Inverse of send_to_experts(): sends `rows` [R, D] back. Returns the rows [W, D], in `out` if `out` is defined.
InFlight send_to_tokens(const MovedRows& moved, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream,
                        const Tensor& out = {});

/// The two steps of send_to_experts() for rows with NodeSteps. send_inside_node() sends each of `rows` [W, D] to the
/// rank of this node that corresponds to the row's destination: both ranks have the same index in their nodes. The
/// result [X, D] has the rows that this rank forwards, sorted by source, then by destination node. send_between_nodes()
/// sorts these rows by destination node and sends them to the experts' ranks. Its result is [R, D], in the order of the
/// ranks.
InFlight send_inside_node(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream);
InFlight send_between_nodes(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream);
/// The two steps of send_to_tokens(): first between nodes, then inside the node.
InFlight return_between_nodes(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes,
                              Stream& stream);
InFlight return_inside_node(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream);

/// Gathers the rows of all ranks of `group` on every rank, in the order of the ranks. `rows` are the rows of this rank;
/// rank q has counts[q] rows. The result is written to `out` if `out` is defined.
InFlight gather_rows(const std::vector<int64_t>& counts, const Tensor& rows, const comm::ProcessGroup& group,
                     Stream& stream, const Tensor& out = {});
/// Adjoint of gather_rows(). Every rank has addends [sum of counts, D]. Returns the sums for this rank's own rows.
/// Addends are added in the order of the ranks, and bf16 is added in f32.
Tensor add_shared_rows(const std::vector<int64_t>& counts, const Tensor& addends, const comm::ProcessGroup& group,
                       Stream& stream);
/// Replaces the addends on every rank by their sum over the ranks. In groups that sum in the order of the ranks
/// (ProcessGroup::all_reduce()), uses the same order and rounding as add_shared_rows().
InFlight add_replicated_rows(const Tensor& addends, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::ep
