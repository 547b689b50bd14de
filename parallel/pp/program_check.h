// Checks of schedules.
#pragma once

#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Throws std::logic_error, which names the rank and the action, if one of these conditions does not hold:
///   - There is one list for each rank. The virtual stages and micro-batches of a list exist. In an evaluation, a list
///     has only forwards.
///   - The forward of every virtual stage and micro-batch runs exactly once. In training, its input gradient and weight
///     gradient also run exactly once. Each action comes after the actions on which it depends.
///   - Only forwards are merged. The next action after a merged forward is a backward of another micro-batch.
///   - No rank waits forever, if messages between two ranks arrive in the order in which they are sent. This condition
///     must hold in both cases: the two actions of a merged pair run as one action, or one after the other. The
///     condition must also hold on devices. There, work that reuses the memory of a sent tensor waits until the peer
///     has received the tensor (transfers.h).
/// The check takes microseconds for each action of each rank. checked() (checked_schedules.h) calls this function.
void check(const Schedule& schedule);

/// Returns the maximum number of activations that each rank keeps in a training schedule. The activations of a virtual
/// stage and micro-batch count as one. They are kept from the start of the forward to the end of the weight gradient.
std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace hexad::pp
