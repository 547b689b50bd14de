// Collectives on tensors of a device by groups that move host memory only.
#pragma once

#include <functional>

#include "framework/device/stream.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using device::Stream;

/// Starts a collective on host memory once the work so far on a host's stream is done.
using StartOnHost = std::function<Event(Operation on_host, Stream& stream)>;

/// `op` of rank `rank` on tensors of the device that `stream` belongs to. What is sent is copied to pinned host memory
/// by `stream`, and what arrives is copied back by the copy lane: the event is the host's first and, where something
/// arrives, a mark of that lane afterwards. The caller waits for nothing, but for `stream` in a barrier, which has no
/// tensors.
Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream);

}  // namespace hexad::comm
