// Moves the rows of a chunk between tokens and experts. Each step is the adjoint of its counterpart on the way back.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/plan_counts.h"

namespace hexad::ep {

/// Rows in flight: `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};

/// Sends rows [rows_to_send(), D] to their experts' ranks. Returns [rows_received(), D] in rank order. In a group of
/// one rank, returns `rows` itself.
InFlight send_to_experts(const ChunkCounts& chunk, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream);
/// Inverse of send_to_experts(): sends rows [rows_received(), D] back. Returns [rows_to_send(), D], in `out` if it is
/// defined.
InFlight send_to_tokens(const ChunkCounts& chunk, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream,
                        const Tensor& out = {});

/// Two-step form of send_to_experts(), for chunks with NodeSteps. send_inside_node() sends rows [rows_to_send(), D] to
/// the ranks of this node that have the places of the experts' ranks. Its result is [X, D], sorted by source.
/// send_between_nodes() sorts these rows by destination node and sends them to the experts' ranks. Its result is
/// [rows_received(), D], in rank order.
InFlight send_inside_node(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream);
InFlight send_between_nodes(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                            Stream& stream);
/// Two-step form of send_to_tokens(): between nodes first, then inside the node.
InFlight return_between_nodes(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                              Stream& stream);
InFlight return_inside_node(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                            Stream& stream);

/// Gathers the rows of all ranks of `group` on every rank, in rank order, in `out` if it is defined. `rows` are this
/// rank's rows. Rank q has counts[q] rows.
InFlight gather_rows(const std::vector<int64_t>& counts, const Tensor& rows, const comm::ProcessGroup& group,
                     Stream& stream, const Tensor& out = {});
/// Adjoint of gather_rows(). Every rank has addends [sum of counts, D]; returns the sums for this rank's own rows. Sums
/// are taken in rank order. Sums of bf16 are taken in f32.
Tensor add_shared_rows(const std::vector<int64_t>& counts, const Tensor& addends, const comm::ProcessGroup& group,
                       Stream& stream);
/// Sums the addends of all ranks in place, on every rank, in the same order and rounding as add_shared_rows().
InFlight add_replicated_rows(const Tensor& addends, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::ep
