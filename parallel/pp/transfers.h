// Times at which ranks post receives and free the tensors that they send. They follow from the schedule, so every rank
// can derive them.
#pragma once

#include <vector>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {

/// The points at which each rank posts receives and frees the tensors that it sends.
///
/// A device sends later than the host calls send, and only after the peer has posted the receive. If memory is freed
/// earlier, it can be reused immediately, but its next use waits in its stream until the tensor has left (Blocks). A
/// rank that frees too early may therefore wait for itself: its next tensor waits until the peer posts a receive, and
/// the peer first waits for that next tensor.
struct Transfers {
  /// Work of a rank before it computes an action, in this order. A merged pair counts as one action, its forward.
  struct Before {
    std::vector<Message> receives;  // receives to post, in the order in which each peer sends
    std::vector<Message> frees;     // sent tensors to free, after the action's inputs have arrived
  };
  std::vector<std::vector<Before>> ranks;  // [rank][action]
  /// True if every sent tensor is freed when its action ends. All `frees` are then empty, and no sent tensor is kept.
  bool at_once = true;
};

/// Returns the points of all ranks for a schedule that check() accepts. `merge` is true if merged pairs run as one.
///
/// Receives are posted one action before they are needed. Sent tensors are freed immediately if no rank can then wait
/// for itself. Otherwise, a sent tensor is freed when inputs have arrived that depend on all work that the peer does
/// before it posts the receive. By then, the rank's stream has already waited for everything on which the message
/// depends, so reusing the memory adds no wait that could close a cycle. If messages are answered, as forwards are by
/// backwards, the number of tensors kept depends on the number of ranks, not of micro-batches.
Transfers transfers(const Schedule& schedule, bool merge);

/// Throws std::logic_error if a rank would wait forever, with memory freed at these points and reused immediately by
/// the next action and the next receives. The error names each such rank and its action.
void check(const Schedule& schedule, const Transfers& transfers, bool merge);

}  // namespace hexad::pp
