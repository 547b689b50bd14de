// Turns a collective into messages between pairs of ranks: a pure function, so that tests play it without a network.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "parallel/comm/operation.h"

namespace hexad::comm {

/// One message: `bytes` from or to rank `peer` of the group.
struct Transfer {
  int peer;
  std::byte* data;
  int64_t bytes;
};

/// Bytes by direction.
struct Volume {
  int64_t sent = 0, received = 0;
  Volume& operator+=(const Volume& other) { return sent += other.sent, received += other.received, *this; }
  Volume& operator-=(const Volume& other) { return sent -= other.sent, received -= other.received, *this; }
};

/// Messages that start together. `finish` (may be null) runs once they are all done.
struct Round {
  std::vector<Transfer> sends{}, receives{};
  int after = -1;  // rounds up to this one are finished before this one starts
  std::function<void()> finish{};

  Volume volume() const;
};

/// Rounds start in order, and so do the messages between two ranks: they need no names to be matched. Their number and
/// sizes follow from the operation's sizes alone, so both sides cut alike.
struct MessagePlan {
  std::vector<Round> rounds;    // at least one, if only an empty one
  std::vector<Tensor> scratch;  // lives as long as the plan
};

/// The plan of rank `rank` of `size`. Copies within the rank are done here. A message has at most about `round_bytes` /
/// (size - 1) bytes.
///   - Reductions exchange pieces and sum them in rank order where they arrive; all_reduce then gathers the sums. Each
///     rank sends 2 (size - 1) / size of the tensor, which is optimal.
///   - A broadcast scatters pieces and gathers them: no rank sends more than that.
///   - Small tensors go whole to everybody.
MessagePlan make_message_plan(const Operation& op, int rank, int size, int64_t round_bytes);
using MakeMessagePlan = MessagePlan (*)(const Operation& op, int rank, int size, int64_t round_bytes);

}  // namespace hexad::comm
