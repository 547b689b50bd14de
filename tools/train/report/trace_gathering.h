// Gathers what ranks recorded, on rank 0 and on one clock.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Collective. On rank 0 `take` is called with the bytes of every rank, its own first: it holds those of one at a time.
void gather_bytes(std::vector<uint8_t> mine, const comm::ProcessGroup& world, device::Device device,
                  const std::function<void(int rank, const std::vector<uint8_t>& bytes)>& take);

/// Collective. Appends, on rank 0, what all ranks have, each with its rank's number, to `all`.
void gather_trace_records(const telemetry::TraceRecords& mine, const comm::ProcessGroup& world, device::Device device,
                          telemetry::TraceRecords& all);

/// Collective. Seconds by which this rank's clock is ahead of rank 0's. Clocks of one node agree; those of other nodes
/// are set by barriers, as exactly as ranks leave a barrier together.
double clock_offset(const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::train
