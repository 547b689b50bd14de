// Converts a collective to messages between pairs of ranks. A pure function, so that tests run it without a network.
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

/// Messages that start together. `finish` (may be null) runs once all of them are done.
struct Round {
  std::vector<Transfer> sends{}, receives{};
  int after = -1;  // this round starts once all rounds up to round `after` are finished
  std::function<void()> finish{};

  Volume volume() const;
};

/// Messages of an operation, in rounds that start in order. The messages between two ranks start in order, too, so they
/// need no names to be matched. Their number and sizes depend only on the operation's sizes, so both sides cut in the
/// same way.
struct MessagePlan {
  std::vector<Round> rounds;    // at least one, which may be empty
  std::vector<Tensor> scratch;  // buffers owned by the plan
};

/// Returns the plan of rank `rank` of `size`. Copies within the rank are done here. A message has at most about
/// `round_bytes` / (size - 1) bytes.
/// - Reductions exchange pieces, and each rank sums the pieces it receives in rank order. all_reduce then gathers the
///   sums. Each rank sends 2 (size - 1) / size of the tensor, which is optimal.
/// - A broadcast scatters pieces and gathers them. No rank sends more than in a reduction.
/// - Small tensors are sent as a whole to every rank.
MessagePlan make_message_plan(const Operation& op, int rank, int size, int64_t round_bytes);
using MakeMessagePlan = MessagePlan (*)(const Operation& op, int rank, int size, int64_t round_bytes);

}  // namespace hexad::comm
