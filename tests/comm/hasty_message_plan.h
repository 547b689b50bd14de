// Plans with a mistake in them.
#pragma once

#include <algorithm>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// The plan of a collective of this kind whose rounds do not wait for the last of those they must wait for: rounds that
/// sum what they receive (`sums`: into slots that are still in use), or the others (that pass on what is not there
/// yet).
template <Operation::Kind kind, bool sums>
MessagePlan hasty_plan(const Operation& op, int rank, int size, int64_t round_bytes) {
  MessagePlan plan = make_message_plan(op, rank, size, round_bytes);
  if (op.kind != kind) return plan;
  for (Round& round : plan.rounds)
    if (static_cast<bool>(round.finish) == sums) round.after = std::max(-1, round.after - 1);
  return plan;
}

}  // namespace hexad::comm
