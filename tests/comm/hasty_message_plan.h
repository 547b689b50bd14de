// Message plans with a planted mistake.
#pragma once

#include <algorithm>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Returns the plan of `op`. If `op` is of kind `kind`, the plan has a planted mistake: some rounds do not wait for the
/// last round that they depend on. If `sums` is true, these rounds sum received data and overwrite slots that are still
/// in use. If `sums` is false, these rounds pass on data that has not arrived.
template <Operation::Kind kind, bool sums>
MessagePlan hasty_plan(const Operation& op, int rank, int size, int64_t round_bytes) {
  MessagePlan plan = make_message_plan(op, rank, size, round_bytes);
  if (op.kind != kind) return plan;
  for (Round& round : plan.rounds)
    if (static_cast<bool>(round.finish) == sums) round.after = std::max(-1, round.after - 1);
  return plan;
}

}  // namespace hexad::comm
