// Order of messages and memory on the ranks. It follows from the schedule, so every rank can derive it.
#pragma once

#include <vector>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {

/// Points at which the ranks post receives and free the tensors that they send.
///
/// A device sends later than the host calls, and only once the peer has posted the receive. Memory that is freed before
/// that can be reused at once, but its next use waits in its stream until the tensor has left (Blocks). So a rank that
/// frees too early may wait for itself: its next tensor waits for the peer to post a receive, and the peer first waits
/// for that next tensor.
struct Transfers {
  /// Steps of a rank before it computes an action, in this order. The actions of a merged pair are one action, the
  /// forward.
  struct Before {
    std::vector<Message> receives;  // to post, in the order in which each peer sends
    std::vector<Message> frees;     // sent tensors to free, once the action's inputs have arrived
  };
  std::vector<std::vector<Before>> ranks;  // by rank and action
  /// True if a sent tensor is freed when its action ends. Then `frees` are empty, and no sent tensor is kept.
  bool at_once = true;
};

/// Returns the points for a schedule that check() accepts. `merge`: merged pairs run as one.
///
/// Receives are posted one action ahead of need. Sent tensors are freed at once if no rank can then wait for itself.
/// Otherwise a sent tensor is freed when inputs have arrived that depend on all work of the peer before it posts the
/// receive. By then the rank's stream has waited for everything that the message needs, so reuse adds no wait that
/// could close a circle. If messages are answered, as forwards are by backwards, the number of kept tensors depends on
/// the ranks, not on the micro-batches.
Transfers transfers(const Schedule& schedule, bool merge);

/// Throws std::logic_error that names each rank that waits forever and its action, if memory that is freed at these
/// points is reused at once by the next action and the next receives.
void check(const Schedule& schedule, const Transfers& transfers, bool merge);

}  // namespace hexad::pp
