// Checks of the routing numbers that other ranks send, before they are used as indices. A wrong number ends the job
// with an error that names its sender, instead of a crash.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/comm/process_group.h"

namespace hexad::ep {

using tensor::Tensor;

/// Checks gathered expert ids [P n, K] i32 of the P ranks of `group`: 0 .. experts - 1, or -1 for a dropped slot.
/// Throws Error(communication) naming the rank, the slot and the id.
void check_gathered_ids(const Tensor& ids, int64_t experts, const comm::ProcessGroup& group);

/// Message with the counts of a rank's rows, which the rank sends to all ranks.
struct CountsMessage {
  int64_t chunks, experts, ranks;
  int64_t slots_per_row;  // maximum; 0 if rows are of slots: the message then has counts of slots only

  /// Returns the number of entries: [chunks, experts] counts of slots, then [chunks, ranks] counts of rows if
  /// slots_per_row is above 0, then the number of all slots.
  int64_t size() const { return chunks * (experts + (slots_per_row > 0 ? ranks : 0)) + 1; }
  /// Checks the message of rank `rank` of `group`. Throws Error(communication) naming the rank, the count and its legal
  /// range.
  void check(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;
};

/// Checks the experts [rows, width] i32 of token rows from rank `rank` of `group`. Experts are numbered among this
/// rank's experts. Each row must name one or more experts, followed by -1. Expert e must occur slots[e] times. Throws
/// Error(communication) naming the rank, the row and the expert.
void check_row_experts(std::span<const int32_t> experts, int64_t width, std::span<const int64_t> slots, int rank,
                       const comm::ProcessGroup& group);

}  // namespace hexad::ep
