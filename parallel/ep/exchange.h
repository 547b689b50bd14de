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

/// Sends rows [rows_to_send(), D] to their experts' ranks; returns [rows_received(), D] in rank order. In a group of
/// one the rows are already there and nothing is copied.
InFlight send_to_experts(const ChunkCounts& chunk, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream);
/// Sends rows back, into `out` if it is given.
InFlight send_to_tokens(const ChunkCounts& chunk, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream,
                        const Tensor& out = {});

/// Do the same in two steps, for chunks with NodeSteps: rows [rows_to_send(), D] to the ranks of their node at the
/// place of their experts' ranks, where they are [X, D] by source, and from there, sorted by node, to these.
InFlight send_inside_node(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream);
InFlight send_between_nodes(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                            Stream& stream);
/// Send rows back, between the nodes first.
InFlight return_between_nodes(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                              Stream& stream);
InFlight return_inside_node(const ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes,
                            Stream& stream);

/// Rows of every rank of `group`, counts[q] of rank q, this rank's being `rows`, one rank's after the other; into `out`
/// where it is given.
InFlight gather_rows(const std::vector<int64_t>& counts, const Tensor& rows, const comm::ProcessGroup& group,
                     Stream& stream, const Tensor& out = {});
/// The adjoint: addends [sum of counts, D] of every rank to the sums of this rank's own rows. Sums are taken in rank
/// order, of bf16 in f32.
Tensor add_shared_rows(const std::vector<int64_t>& counts, const Tensor& addends, const comm::ProcessGroup& group,
                       Stream& stream);
/// The sum of all ranks' addends on every rank, in the same order and rounding.
InFlight add_replicated_rows(const Tensor& addends, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::ep
