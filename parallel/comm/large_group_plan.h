// Message plans of operations in large groups, in which a rank should not exchange small messages with every other
// rank.
#pragma once

#include <optional>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Returns the message plan of an operation in a group of more than BlockSizes::direct_ranks ranks. Returns nullopt for
/// smaller groups, and for operations that are planned as in smaller groups. Plans barriers, broadcasts, all-gathers of
/// small tensors, and most all-reductions of small tensors, in O(log(size)) steps. Results are bitwise identical to the
/// results of the plans of smaller groups.
std::optional<MessagePlan> make_large_group_plan(const Operation& op, int rank, int size, int64_t round_bytes);

}  // namespace hexad::comm
