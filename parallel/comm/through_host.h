// Collectives on tensors of a device by groups that move host memory only.
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

/// `op` on tensors of the same size in memory that the transport can reach, with the owners of that memory.
struct Staged {
  Operation op;
  std::vector<std::shared_ptr<const void>> owners{};
};
using Stage = std::function<Staged(const Operation& op)>;
Staged in_pinned_memory(const Operation& op);

/// `op` of rank `rank` on tensors of the device that `stream` belongs to. What is sent is copied to what `stage` gives
/// by `stream`, and what arrives is copied back by the copy lane: the event is the host's first and, where something
/// arrives, a mark of that lane afterwards. The caller waits for nothing, but for `stream` in a barrier, which has no
/// tensors.
Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream,
                   const Stage& stage = in_pinned_memory);

}  // namespace hexad::comm
