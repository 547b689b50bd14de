// Proofs about schedules.
#pragma once

#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Throws std::logic_error, naming rank and action, unless
///   - every forward of every chunk and micro-batch is done exactly once, in training with its input gradient and
///     weight gradient, each after what it needs;
///   - no rank waits for ever, with messages between two ranks in the order in which they are sent, whether merged
///     pairs are done as one or one after the other.
/// run() calls it; it takes microseconds for each action of all ranks.
void check(const Schedule& schedule);

/// Returns, by rank, the most micro-batches times chunks whose activations are kept at once, from the begin of the
/// forward to the end of the weight gradient.
std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace hexad::pp
