// Gathers the ranks' trace records on rank 0, on one clock.
#pragma once

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Appends the records of all ranks, each with its rank's number, to `all` on rank 0. Collective.
void gather_trace_records(const telemetry::TraceRecords& mine, const comm::ProcessGroup& world, device::Device device,
                          telemetry::TraceRecords& all);

/// Returns the seconds by which this rank's clock is ahead of rank 0's. Clocks of one node agree. Clocks of other nodes
/// are compared at barriers, so the error is the difference between the times at which ranks leave a barrier.
/// Collective.
double clock_offset(const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::train
