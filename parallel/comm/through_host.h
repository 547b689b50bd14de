// Collectives on device tensors, for groups that transfer only host memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "framework/device/stream.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using device::Stream;

/// Function that starts a collective on host memory. The collective begins once the host stream `stream` has done the
/// work appended so far.
using StartOnHost = std::function<Event(Operation on_host, Stream& stream)>;

/// Copy of an operation in which all tensors are replaced by tensors of the same sizes in memory that the transport can
/// access. `owners` own this memory; the list is empty if the tensors own the memory.
struct Staged {
  Operation op;
  std::vector<std::shared_ptr<const void>> owners{};
};
using Stage = std::function<Staged(const Operation& op)>;
/// Returns `op` with its tensors replaced by page-locked host tensors, which own their memory (Tensor::pinned).
Staged in_pinned_memory(const Operation& op);

/// Executes `op` of rank `rank` on tensors of the device to which `stream` belongs. `stream` copies the outgoing
/// tensors to memory that `stage` returns. The copy lane copies received tensors back to the device. The returned event
/// is done when the host has completed the operation and the copy lane has copied any received tensors. Only a barrier
/// blocks the caller: there are no tensors to copy, so the caller itself waits for `stream`.
Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream,
                   const Stage& stage = in_pinned_memory);

}  // namespace hexad::comm
