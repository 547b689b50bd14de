// Checks of schedules.
#pragma once

#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Throws std::logic_error that names the rank and the action unless both of these conditions hold:
///   - Every forward of every chunk and micro-batch runs exactly once and, in training, its input gradient and weight
///     gradient too. Each action comes after the actions on which it depends.
///   - No rank waits forever, with messages between two ranks in the order in which they are sent. This must hold
///     whether the two actions of a merged pair run as one or one after the other. It must also hold on devices, where
///     work that reuses the memory of a sent tensor waits until the peer has received the tensor (transfers.h).
/// run() calls check(), which takes microseconds for each action of each rank.
void check(const Schedule& schedule);

/// Returns each rank's maximum number of kept activations: those of one chunk and micro-batch, from the start of the
/// forward to the end of its weight gradient.
std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace hexad::pp
