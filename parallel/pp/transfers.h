// Points of a schedule at which ranks post receives and free the tensors that they send. Every rank can derive these
// points from the schedule.
#pragma once

#include <vector>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {

/// The points at which each rank posts receives and frees the tensors that it sends.
///
/// A device sends a tensor after the host has called send, and only once the peer has posted the receive. If the tensor
/// is freed earlier, its memory can be reused immediately. But the stream that reuses the memory waits until the tensor
/// has been sent (device::cuda::Blocks). A rank that frees too early may therefore cause a deadlock. Its next tensor
/// then waits until the peer posts a receive, but the peer first waits for this next tensor.
struct Transfers {
  /// Work of a rank before it computes an action, in this order. A merged pair counts as one action, its forward.
  struct Before {
    std::vector<Message> receives;  // receives to post, in the order in which each peer sends
    std::vector<Message> frees;     // sent tensors to free once the action's inputs have arrived
  };
  std::vector<std::vector<Before>> ranks;  // [rank][action]
  /// True if every sent tensor is freed when the action that makes it ends. All lists `frees` are then empty.
  bool at_once = true;
};

/// Returns, for all ranks, the points at which receives are posted and sent tensors are freed. check() must accept the
/// schedule. `merge` is true if merged pairs run as one.
///
/// The receive of an action is posted before the previous action. For the first action, and for the backward of a
/// merged pair, it is posted immediately before the action or pair. Receives from one sender are posted in the order of
/// its messages.
///
/// Sent tensors are freed immediately if this cannot cause a deadlock. Otherwise, a sent tensor is freed at the first
/// action whose inputs depend on all work that the peer does before it posts the receive. The tensor is freed once
/// these inputs have arrived. If there is no such action, the tensor is freed at the end. By then, the rank's stream
/// has waited for everything on which the message depends, so reusing the memory cannot close a cycle of waits.
///
/// If each forward's message is answered by the message of its backward, the number of tensors kept does not depend on
/// the number of micro-batches.
Transfers transfers(const Schedule& schedule, bool merge);

/// Throws std::logic_error if a rank would wait forever. The error names each such rank and its action. Assumes that
/// memory is freed at the points `transfers`, and is reused immediately by the next action and the next receives.
void check(const Schedule& schedule, const Transfers& transfers, bool merge);

}  // namespace hexad::pp
