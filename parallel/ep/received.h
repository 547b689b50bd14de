// Checks of the routing numbers that other ranks send, before the numbers are used as indices. A wrong number ends the
// job with an error that names its sender, instead of a crash.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/comm/process_group.h"

namespace hexad::ep {

using tensor::Tensor;

/// Checks the gathered expert ids [P n, K] (i32) of the P ranks of `group`: each must be in [0, experts), or -1 for a
/// dropped slot. Throws Error(communication) that names the rank, the slot and the id.
void check_gathered_ids(const Tensor& ids, int64_t experts, const comm::ProcessGroup& group);

/// Counts of a rank's slots and rows. The rank sends this message to all other ranks.
struct CountsMessage {
  int64_t chunks, experts, ranks;
  int64_t slots_per_row;  // maximum slots of a row; 0 if rows belong to slots, which then are all that is counted
  bool joined = false;    // true: rows are also counted by the chunk in which they return (joins_rows())

  /// Returns the number of entries: [chunks, experts] counts of slots; [chunks, ranks] counts of rows if slots_per_row
  /// > 0; as many again if rows are joined; and the total number of slots.
  int64_t size() const { return chunks * (experts + ((slots_per_row > 0 ? 1 : 0) + (joined ? 1 : 0)) * ranks) + 1; }
  /// Checks the message of rank `rank` of `group`. Throws Error(communication) that names the rank, the count and the
  /// legal range.
  void check(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;

 private:
  void check_joined(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;
};

/// Checks the experts [rows, width] (i32) that rank `rank` of `group` lists for its token rows. Experts are numbered
/// among those of this rank. Each row must list at least one expert, followed by -1. Expert e must be listed slots[e]
/// times in total. Throws Error(communication) that names the rank, the row and the expert.
void check_row_experts(std::span<const int32_t> experts, int64_t width, std::span<const int64_t> slots, int rank,
                       const comm::ProcessGroup& group);

/// Checks that rank `rank` of `group` lists as many joined rows as it has counted: of those that are sent in a chunk
/// (`returning` false) or return in it, `listed` and `counted` numbers by chunk. Throws Error(communication).
void check_joined_rows(std::span<const int64_t> listed, std::span<const int64_t> counted, bool returning, int rank,
                       const comm::ProcessGroup& group);

}  // namespace hexad::ep
