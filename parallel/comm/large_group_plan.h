// Plans of operations in groups of so many ranks that a rank should not exchange messages with every other one.
#pragma once

#include <optional>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Returns the plan of an operation in a group of more than BlockSizes::direct_ranks ranks; nullopt for smaller groups,
/// and for operations that are planned as in smaller groups. Barriers, gathers and reductions of small tensors, and all
/// broadcasts take about log2(size) steps, in each of which a rank has one message or two. Results are bitwise the same
/// as in smaller groups.
std::optional<MessagePlan> make_large_group_plan(const Operation& op, int rank, int size, int64_t round_bytes);

}  // namespace hexad::comm
