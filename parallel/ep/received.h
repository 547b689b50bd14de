// Checks the numbers that other ranks send about routing, before memory is read or written by them: a changed number
// ends the job with the rank and the number, not with a crash somewhere else.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/comm/process_group.h"

namespace hexad::ep {

using tensor::Tensor;

/// Gathered expert numbers [P n, K] i32 of the P ranks of `group`: 0 .. experts - 1, or -1 for a dropped slot. Throws
/// Error(communication) naming the rank, the slot and the number.
void check_gathered_ids(const Tensor& ids, int64_t experts, const comm::ProcessGroup& group);

/// Counts of its rows that a rank sends the others, in one message.
struct CountsMessage {
  int64_t chunks, experts, ranks;
  int64_t slots_per_row;  // at most; 0: a row is a slot, and rows are not counted besides

  /// [chunks, experts] slots, then [chunks, ranks] rows where they are counted, then the number of all slots.
  int64_t size() const { return chunks * (experts + (slots_per_row > 0 ? ranks : 0)) + 1; }
  /// Throws Error(communication) naming the `rank` of `group` that sent it, the count and its legal range.
  void check(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;
};

/// Experts of rows of tokens that came from `rank` of `group`, [rows, width] i32 counted among this rank's: one or
/// more, then -1; expert e as often as slots[e] says. Throws Error(communication) naming the rank, the row and the
/// number.
void check_row_experts(std::span<const int32_t> experts, int64_t width, std::span<const int64_t> slots, int rank,
                       const comm::ProcessGroup& group);

}  // namespace hexad::ep
