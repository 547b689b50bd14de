// Exchange of rows through windows (AllToAll::window). A rank copies its rows to their grouped places in the windows of
// the experts' ranks, and copies results from there. Rows are not packed, and are already in their grouped places when
// they arrive.
#pragma once

#include "parallel/ep/received_counts.h"
#include "parallel/ep/routing_counts.h"

namespace hexad::ep {

/// Returns the largest number of rows that any rank receives in any chunk. The result is the same on all ranks. `n`
/// must have been exchanged with AllToAll::window.
int64_t max_rows_received(const ReceivedCounts& n);
/// Returns the places of the rows that this rank sends in a chunk (PermuteKernels::put), [3, N] i64 on `device`. N is
/// the number of runs. A run contains the rows for one expert. There is no run for an expert without rows.
Tensor window_runs(const ReceivedCounts& n, int64_t chunk, device::Device device);

/// Exchanges a known row between each pair of ranks, in the order of `stream`. Throws Error(communication) on all ranks
/// if a row does not arrive or does not return. Collective and blocking. Call this function before windows are used.
/// Otherwise, a wrong address or a missing barrier could cause wrong results without an error.
void check_windows(comm::Windows& windows, device::Device device, Stream& stream);

/// Copies rows to the ranks of their experts. Row r is values[index[r]], or values[r] if `index` is undefined. Returns
/// the grouped rows [R, D] that this rank has received. They may be read in the order of `stream`.
Tensor send_by_window(const ChunkCounts& counts, const Tensor& runs, const Tensor& values, const Tensor& index,
                      comm::Windows& windows, Stream& stream);
/// Inverse of send_by_window(): copies grouped rows `results` [R, D] back to `out` [W, D], in the order of the rows
/// that were sent.
void return_by_window(const Tensor& out, const ChunkCounts& counts, const Tensor& runs, const Tensor& results,
                      comm::Windows& windows, Stream& stream);

}  // namespace hexad::ep
