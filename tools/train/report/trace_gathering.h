// Gathers the trace records of all ranks on rank 0 and converts their times to rank 0's clock.
#pragma once

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Appends the records of all ranks to `all` on rank 0. Each record gets the number of its rank. Collective.
void gather_trace_records(const telemetry::TraceRecords& mine, const comm::ProcessGroup& world, device::Device device,
                          telemetry::TraceRecords& all);

/// Returns the seconds by which this rank's clock is ahead of rank 0's clock. Ranks of one node share a clock. Compares
/// the clocks of different nodes at barriers. The error is at most the time between the ranks' returns from a barrier.
/// Collective.
double clock_offset(const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::train
