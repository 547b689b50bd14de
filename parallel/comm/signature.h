// Signatures, which the ranks of a group compare before an operation, to be sure that all of them mean the same one.
#pragma once

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// An operation as rank `peer` must see it, too. Plain data: it travels as bytes.
struct Signature {
  int64_t number = 0;  // of the operation on its channel
  int64_t elements = 0;
  int64_t row_bytes = 0, rows_to_peer = 0, rows_from_peer = 0;  // of an all_to_all, whose sizes differ by pair
  int32_t kind = 0, dtype = 0, reduce = 0, root = -1;

  static Signature of(const Operation& op, int64_t number, int peer);
  /// Returns the peer's signature, in which send and receive are exchanged.
  Signature mirrored() const;
  bool operator==(const Signature&) const = default;
};

/// True if an operation of rank `a` and one of rank `b` of a group are two sides of the same.
bool agree(const Operation& op_a, int a, const Operation& op_b, int b, int64_t number);

/// "[tp] ranks disagree about operation 7: rank 0 calls all_reduce of f32 [4] at a.cpp:3, rank 1 calls ..."
std::string disagreement(const std::string& group, int64_t number, int a, const std::string& call_a, int b,
                         const std::string& call_b);

/// Puts a round before all others, in which the ranks exchange their signatures. Where these differ, its `finish`
/// throws Error(communication) with disagreement(). Of a send and its receive only the receiver checks.
void check_first(MessagePlan& plan, const Operation& op, const std::string& group, int64_t number, int rank, int size);

}  // namespace hexad::comm
