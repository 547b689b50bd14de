// Gathers what ranks recorded, on rank 0 and on one clock.
#pragma once

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Collective. Appends, on rank 0, what all ranks have, each with its rank's number, to `all`.
void gather_trace_records(const telemetry::TraceRecords& mine, const comm::ProcessGroup& world, device::Device device,
                          telemetry::TraceRecords& all);

/// Collective. Seconds by which this rank's clock is ahead of rank 0's. Clocks of one node agree; those of other nodes
/// are set by barriers, as exactly as ranks leave a barrier together.
double clock_offset(const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::train
