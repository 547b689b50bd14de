// Checks of the routing data that other ranks send, before the data is used as indices. Wrong data then causes no
// crash, but an error that names the sender.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::ep {

using tensor::Tensor;

/// Checks the gathered expert ids [P * n, K] (i32) of the P ranks of `group`, with n tokens each. Each id must be in
/// [0, experts), or -1 for a dropped slot. Throws Error(communication), which names the rank, the slot and the id, if
/// an id is wrong.
void check_gathered_ids(const Tensor& ids, int64_t experts, const comm::ProcessGroup& group);

/// Message with the counts of a rank's slots and rows, which the rank sends to all other ranks.
struct CountsMessage {
  int64_t chunks, experts, ranks;
  int64_t slots_per_row;  // maximum number of slots of a row; 0 if rows belong to slots, so that only slots are counted
  bool joined = false;    // true: rows are also counted by the chunk in which they return (joins_rows())

  /// Returns the number of entries. The entries are, in this order:
  /// - counts of slots, [chunks, experts]
  /// - counts of rows to send, [chunks, ranks], if slots_per_row > 0
  /// - counts of rows that return, [chunks, ranks], if rows are joined
  /// - the total number of slots
  int64_t size() const { return chunks * (experts + ((slots_per_row > 0 ? 1 : 0) + (joined ? 1 : 0)) * ranks) + 1; }
  /// Checks the message of rank `rank` of `group`. Throws Error(communication), which names the rank, the count and the
  /// legal range, if a count is wrong.
  void check(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;

 private:
  void check_joined(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const;
};

/// Returns the CountsMessage of rank `rank` of `group`, for rows that belong to slots. `ends` [chunks * experts + 1]
/// has the end of the rows of each chunk and expert among the rank's sorted slots. The last entry is the end of rows
/// whose ids are no experts. Throws Error(communication), which names the rank, if there are such rows.
std::vector<int64_t> counts_message(std::span<const int64_t> ends, int rank, const comm::ProcessGroup& group);

/// Checks the experts [rows, width] (i32) that rank `rank` of `group` lists for its token rows. The lists contain
/// indices among the experts of this rank. Each row must list at least one expert and is padded with -1. Expert e must
/// be listed slots[e] times in total. Throws Error(communication), which names the rank, and the row or the expert, if
/// the list is wrong.
void check_row_experts(std::span<const int32_t> experts, int64_t width, std::span<const int64_t> slots, int rank,
                       const comm::ProcessGroup& group);

/// Checks that rank `rank` of `group` lists as many joined rows in each chunk as it has counted. `listed` and `counted`
/// contain one number per chunk. The numbers count the rows that return in the chunk if `returning` is true, and
/// otherwise the rows that are sent in the chunk. Throws Error(communication), which names the rank and the chunk, if a
/// number is wrong.
void check_joined_rows(std::span<const int64_t> listed, std::span<const int64_t> counted, bool returning, int rank,
                       const comm::ProcessGroup& group);

}  // namespace hexad::ep
