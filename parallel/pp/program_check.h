// Checks of schedules.
#pragma once

#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Throws std::logic_error that names rank and action, unless both conditions hold:
///   - Every forward of every chunk and micro-batch runs exactly once, in training with its input gradient and weight
///     gradient. Each action comes after the actions that it needs.
///   - No rank waits forever, with messages between two ranks in the order in which they are sent. This must hold
///     whether the two actions of a merged pair run as one or one after the other, and on devices, where work that
///     reuses the memory of a sent tensor waits until the peer has received it (transfers.h).
/// run() calls check(), which takes microseconds for each action of all ranks.
void check(const Schedule& schedule);

/// Returns, by rank, the maximum number of forwards (one for each micro-batch and chunk) whose activations are kept at
/// the same time. Activations are kept from the start of the forward to the end of the weight gradient.
std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace hexad::pp
