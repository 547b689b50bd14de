// Signatures of operations. The ranks of a group can compare them before an operation, to check that all ranks call the
// same operation.
#pragma once

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Properties of an operation. A rank compares them with the properties that its peer sends. The struct is sent as
/// bytes, so it contains no pointers.
struct Signature {
  int64_t number = 0;  // index of the operation in its channel
  int64_t elements = 0;
  // Set only for all_to_all, whose sizes differ between pairs of ranks.
  int64_t row_bytes = 0, rows_to_peer = 0, rows_from_peer = 0;
  int32_t kind = 0, dtype = 0, reduce = 0, root = -1;

  static Signature of(const Operation& op, int64_t number, int peer);
  /// Returns the signature that the peer must have: the numbers of sent and received rows are swapped, as are the kinds
  /// send and receive.
  Signature mirrored() const;
  bool operator==(const Signature&) const = default;
};

/// True if `op_a` on rank `a` and `op_b` on rank `b` match.
bool agree(const Operation& op_a, int a, const Operation& op_b, int b, int64_t number);

/// Returns a message like "[tp] ranks disagree about operation 7: rank 0 calls all_reduce of f32 [4] at a.cpp:3, rank 1
/// calls ..."
std::string disagreement(const std::string& group, int64_t number, int a, const std::string& call_a, int b,
                         const std::string& call_b);

/// Inserts a first round into `plan`, in which the ranks exchange their signatures. The `finish` of the round throws
/// Error(communication) with disagreement() if the signatures do not match. Only the receiver of a message checks the
/// signatures of the send and the receive.
void check_first(MessagePlan& plan, const Operation& op, const std::string& group, int64_t number, int rank, int size);

}  // namespace hexad::comm
