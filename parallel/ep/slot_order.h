// Order in which a rank sends the rows of its tokens' slots, and the division of these rows into chunks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"
#include "parallel/comm/process_group.h"

namespace hexad::ep {

using device::Stream;
using tensor::Tensor;

/// Division of rows into chunks, which are sent, computed and returned one after another. The chunk of a slot is a pure
/// function of its token and expert, so ranks agree on it without communication.
struct Chunking {
  /// Criterion of the division:
  ///   tokens   consecutive tokens, as equal in number as possible (MPMoE)
  ///   peers    distance of the expert's rank in the ring of ranks, nearest ranks first (FasterMoE's groups of workers)
  ///   phases   distance modulo the number of chunks (round robin), so that every rank sends about as many rows to
  ///            other nodes in each chunk (Parm's SAA)
  ///   experts  consecutive experts of each rank (EPS-MoE)
  enum class By : uint8_t { tokens, peers, phases, experts };
  By by = By::tokens;
  int chunks = 1;

  /// Throws std::logic_error if the ranks cannot divide the experts evenly, or if the number of chunks is out of range.
  void check(int64_t experts, int ranks) const;
  /// Returns the chunk of the slot of token `token` of `tokens` for expert `expert`, on rank `rank` of `ranks`.
  int chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const;
};

/// Unit that is sent as one row.
enum class RowOf : uint8_t {
  slot,   // one copy of a token for each of its experts, which returns the expert's result
  token,  // one copy of a token for each rank with any of its experts, which returns one weighted sum (EPS-MoE's
          // LocalReduce); one for each chunk if the token's experts are in several chunks
};
constexpr auto enum_names(RowOf) {
  return std::to_array<std::pair<RowOf, std::string_view>>({{RowOf::slot, "slot"}, {RowOf::token, "token"}});
}

/// Kept slots of a rank as rows, sorted by chunk, expert (the expert's rank if rows are of tokens), token and slot. So
/// results are deterministic, and the rows for one rank in one chunk are contiguous. Tensors are on the device of the
/// ids.
struct SlotOrder {
  int64_t experts = 0;
  std::vector<int64_t> counts;   // [chunks, experts]: number of slots
  std::vector<int64_t> rows_to;  // [chunks, ranks]: number of rows
  Tensor tokens;                 // [S] i64: token of each row
  Tensor rows;                   // [T, K] i64: row of each slot; -1: dropped, or listed at an earlier slot of the token
  // Defined only if rows are of tokens:
  Tensor row_slots;    // [S, M] i64: slots t K + k of each row, in order; -1: no further slot
  Tensor row_experts;  // [S, M] i32, on the host: experts of these slots, numbered within their rank

  int64_t size() const { return tokens.dim(0); }
};

/// Settings of order_slots().
struct Ordering {
  int64_t experts;  // number of experts, in equal blocks over the ranks
  int ranks;        // number of ranks of an ep group
  Chunking chunking{};
  RowOf row_of = RowOf::slot;
  /// Group from whose ranks the ids were gathered, named in the error if an id names no expert; null: the ids are this
  /// rank's own.
  const comm::ProcessGroup* senders = nullptr;
};

/// Returns the slot order of each rank in `of`, given as ranks of their ep groups. ids [T, K] i32 have the tokens of
/// these ranks one after another, with the same number for each rank. Entries are in [0, experts), or -1 for a dropped
/// slot. M is the maximum number of a token's K distinct experts on one rank. `stream` is the compute lane.
///
/// Rows of slots are sorted on the device of the ids, and the host reads only their counts ("routing: counts"). For
/// rows of tokens, the host reads the ids ("routing: ids"). Throws Error(communication) if an id of `senders` names no
/// expert, and std::logic_error if an id of this rank names no expert.
std::vector<SlotOrder> order_slots(const Tensor& ids, const Ordering& ordering, std::span<const int> of,
                                   Stream& stream);
/// Returns the order of one rank.
SlotOrder order_slots(const Tensor& ids, const Ordering& ordering, int rank, Stream& stream);

}  // namespace hexad::ep
