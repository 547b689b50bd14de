// Conversion of collectives to messages between pairs of ranks. The conversion needs no network, so tests can call it
// directly.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "parallel/comm/operation.h"

namespace hexad::comm {

/// One message of `bytes` bytes, to or from rank `peer` of the group.
struct Transfer {
  int peer;
  std::byte* data;
  int64_t bytes;
};

/// Bytes sent and bytes received.
struct Volume {
  int64_t sent = 0, received = 0;
  Volume& operator+=(const Volume& other) { return sent += other.sent, received += other.received, *this; }
  Volume& operator-=(const Volume& other) { return sent -= other.sent, received -= other.received, *this; }
};

/// Messages that start together. `finish` is called when all of these messages are done, if it is not null.
struct Round {
  std::vector<Transfer> sends{}, receives{};
  int after = -1;  // this round starts once rounds 0 to `after` have finished
  std::function<void()> finish{};

  Volume volume() const;
};

/// Messages of an operation, in rounds that start in order. Therefore the messages between two ranks also start in
/// order and can be matched without identifiers. The number and sizes of the messages depend only on the operation, the
/// size of the group and the bytes of a round. They do not depend on the values of tensors. Sender and receiver
/// therefore divide a transfer in the same way.
struct MessagePlan {
  std::vector<Round> rounds;    // at least one; a round may be empty
  std::vector<Tensor> scratch;  // buffers owned by the message plan
};

/// Returns the message plan of rank `rank` among `size` ranks. This call also performs the copies within the rank. A
/// message has at most about `round_bytes` / (size - 1) bytes. The limit is about `round_bytes` bytes in rounds with
/// only one message or, in large groups, a few messages. Messages of up to BlockSizes::message_bytes are always
/// permitted.
/// - In reductions, ranks exchange pieces. Each rank sums its own piece and the received pieces in the order of the
///   ranks. An all_reduce then gathers the sums. In an all_reduce, each rank sends 2 * (size - 1) / size times the
///   bytes of the tensor, which is optimal.
/// - A broadcast scatters pieces and then gathers them. No rank sends more than in an all_reduce of the tensor.
/// - An all_reduce or broadcast of a small tensor sends the whole tensor to every rank.
/// - In large groups, barriers, broadcasts, all-gathers of small tensors, and most all-reductions of small tensors have
///   other plans (large_group_plan.h). A round of an all-to-all or of a large all-gather then has messages to only some
///   of the ranks.
MessagePlan make_message_plan(const Operation& op, int rank, int size, int64_t round_bytes);
using MakeMessagePlan = MessagePlan (*)(const Operation& op, int rank, int size, int64_t round_bytes);

}  // namespace hexad::comm
