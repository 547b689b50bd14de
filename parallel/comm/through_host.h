// Collectives on device tensors by groups that move only host memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "framework/device/stream.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using device::Stream;

/// Starts a collective on host memory once the work so far on a host's stream is done.
using StartOnHost = std::function<Event(Operation on_host, Stream& stream)>;

/// Copy of an operation on tensors of the same size in memory that the transport can access, with the owners of that
/// memory.
struct Staged {
  Operation op;
  std::vector<std::shared_ptr<const void>> owners{};
};
using Stage = std::function<Staged(const Operation& op)>;
Staged in_pinned_memory(const Operation& op);

/// Executes `op` of rank `rank` on tensors of the device of `stream`. `stream` copies the tensors to send to the memory
/// from `stage`. The copy lane copies received tensors back. The host completes the returned event. If tensors arrive,
/// the completed event is a mark of the copy lane. Only a barrier blocks the caller: it has no tensors and waits for
/// `stream`.
Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream,
                   const Stage& stage = in_pinned_memory);

}  // namespace hexad::comm
