// Points of a schedule at which ranks post receives and free the tensors that they send. Every rank can derive these
// points from the schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {

/// The points at which each rank posts receives and frees the tensors that it sends.
///
/// A device sends a tensor after the host has called send, and only once the peer has posted the receive. The memory of
/// the tensor can be reused immediately if the tensor is freed earlier. But the stream that reuses the memory waits
/// until the tensor has been sent (device::cuda::Blocks). A rank that frees too early may therefore cause a deadlock.
/// Its next tensor then waits until the peer posts a receive, but the peer first waits for this next tensor.
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

/// Rule by which sent tensors are freed.
/// - early: at once, if this cannot cause a deadlock; otherwise once the peer is known to be about to post the receive.
/// - latest: once the peer is known to have posted the receive, because the peer has ended the action that follows the
///   receive. Host threads that send a tensor hold it until the peer posts the receive. With this rule, a rank holds a
///   tensor as long as such threads would if the peer were as late as the schedule allows. Memory estimates use this
///   rule.
enum class Freeing : uint8_t { early, latest };

/// Returns, for all ranks, the points at which receives are posted and sent tensors are freed. check() must accept the
/// schedule. `merge` is true if merged pairs run as one action.
///
/// The receive of an action is posted before the previous action. For the first action, and for the backward of a
/// merged pair, it is posted immediately before the action or pair. Receives from one sender are posted in the order of
/// its messages.
///
/// With Freeing::early, some tensors cannot be freed at once. Such a tensor is freed at the first action whose inputs
/// depend on all work that the peer does before it posts the receive. It is freed once these inputs have arrived. The
/// tensor is freed at the end if there is no such action. By then, the rank's stream has waited for everything on which
/// the message depends. Reusing the memory therefore cannot close a cycle of waits.
///
/// The number of tensors kept does not depend on the number of micro-batches if the peer answers the message of each
/// forward with the message of its backward.
Transfers transfers(const Schedule& schedule, bool merge, Freeing freeing = Freeing::early);

/// Returns the number of sums of a weight's gradient that may be in flight on rank `rank`. The first and the last
/// virtual stage share the weight (a tied embedding). The ranks of both stages add up the weight's gradient for each
/// micro-batch. The n-th sum is in flight from its beginning until the other rank has computed all weight gradients of
/// n micro-batches. The other rank is as late as the schedule allows. Returns 0 if `rank` has neither or both of the
/// stages.
int sums_in_flight(const Schedule& schedule, bool merge, int rank);

/// Throws std::logic_error if a rank would wait forever. The error names each such rank and its action. Assumes that
/// memory is freed at the points `transfers`, and is reused immediately by the next action and the next receives.
void check(const Schedule& schedule, const Transfers& transfers, bool merge);

}  // namespace hexad::pp
