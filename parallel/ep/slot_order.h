// Order in which a rank sends the rows of its tokens, and the division of these rows into chunks.
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

/// Division of rows into chunks, which are sent, computed and returned one after the other. The chunk of a slot depends
/// only on the indices of its token and expert, and on the rank of the token.
struct Chunking {
  /// Criterion of the division:
  ///   tokens   consecutive tokens, in equal numbers as far as possible (MPMoE)
  ///   peers    distance of the expert's rank in the ring of ranks, nearest ranks first (FasterMoE's groups of workers)
  ///   experts  consecutive experts of each rank (EPS-MoE)
  enum class By : uint8_t { tokens, peers, experts };
  By by = By::tokens;
  int chunks = 1;

  /// Throws std::logic_error if the experts cannot be divided evenly among the ranks, or if the number of chunks is
  /// illegal.
  void check(int64_t experts, int ranks) const;
  /// Returns the chunk of the slot that sends token `token` of `tokens` to expert `expert`. The token is on rank `rank`
  /// of `ranks`, and each rank has `local_experts` experts.
  int chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const;
};

/// Meaning of a row.
enum class RowOf : uint8_t {
  slot,   // a row is a copy of a token for one of its experts, and returns the result of that expert
  token,  // a row is a copy of a token for all of its experts on one rank, and returns one weighted sum (EPS-MoE's
          // LocalReduce); all slots of a row are in one chunk if chunks are not divided by experts
};
constexpr auto enum_names(RowOf) {
  return std::to_array<std::pair<RowOf, std::string_view>>({{RowOf::slot, "slot"}, {RowOf::token, "token"}});
}

/// True if the row of a token for a rank is joined over chunks. A joined row is sent in the first chunk with any of its
/// slots. The row returns in the last such chunk, as a sum over all chunks (EPS-MoE's LocalReduce over expert groups).
inline bool joins_rows(const Chunking& chunking, RowOf row_of) {
  return row_of == RowOf::token && chunking.by == Chunking::By::experts && chunking.chunks > 1;
}

/// Slots of a rank, without dropped slots, arranged as S rows. The rank has T tokens with K slots each. Rows are sorted
/// by chunk, expert (or rank of the expert, if rows belong to tokens), token and slot. Therefore results are
/// deterministic, and the rows for one rank in one chunk are contiguous. Joined rows are sorted by the chunk in which
/// they return. All tensors except row_experts are on the device of the ids.
struct SlotOrder {
  int64_t experts = 0;
  std::vector<int64_t> counts;   // [chunks, experts]: numbers of slots; with padding, numbers of rows
  std::vector<int64_t> rows_to;  // [chunks, ranks]: numbers of rows to send
  /// CountsMessage of each rank of Ordering::counting, in the order of the ranks; empty if this group has not gathered
  /// counts.
  std::vector<int64_t> everyones_counts{};
  Tensor tokens;  // [S] i64: token of each row; 0 for padding
  Tensor rows;    // [T, K] i64: row of each slot; -1: dropped, or the row of an earlier slot of the token represents it
  // `row_slots` is defined only if rows belong to tokens or if there is padding, `row_experts` only if rows belong to
  // tokens. M is the maximum number of slots of a row: min(K, experts / ranks) if rows belong to tokens, otherwise 1.
  Tensor row_slots;    // [S, M] i64: slots t * K + k of each row, in order, padded with -1
  Tensor row_experts;  // [S, M] i32, on the host: experts of these slots, by index on their rank
  // The members below are set only if rows are joined.
  bool joined = false;
  std::vector<int64_t> returns_from;  // [chunks, ranks]: numbers of rows by the chunk in which they return
  std::vector<int64_t> sent;          // [S]: rows sorted by the chunk in which they are sent, rank and token
  std::vector<int64_t> by_rank;       // [S]: rows sorted by rank and token

  int64_t size() const { return tokens.dim(0); }
  /// Returns the numbers of rows [chunks, ranks], by the chunk in which the rows return and the rank of their experts.
  /// Rows are sorted in this order.
  const std::vector<int64_t>& rows_from() const { return joined ? returns_from : rows_to; }
};

/// Arguments of order_slots().
struct Ordering {
  int64_t experts;  // number of experts, divided among the ranks in equal blocks
  int ranks;        // number of ranks in an ep group
  Chunking chunking{};
  RowOf row_of = RowOf::slot;
  /// Group whose ranks sent the ids, so that errors can name the sender of a wrong id. Null if the ids are this rank's
  /// own.
  const comm::ProcessGroup* senders = nullptr;
  /// Group of the ranks among which the experts are divided. Their devices gather the counts of all these ranks. Null
  /// if the host exchanges the counts later. Ignored if the host reads the ids.
  const comm::ProcessGroup* counting = nullptr;
  /// A rank pads the rows of each expert up to this multiple of the rank's mean number of slots per expert; 0: no
  /// padding.
  double capacity = 0;
};

/// Returns the slot orders of the ranks `of`, which are ranks in their ep groups. ids [T, K] (i32) contains the experts
/// of each token: first the rows of the first rank's tokens, then the rows of the next rank's tokens. Each rank has the
/// same number of tokens. Each id is in [0, experts), or -1 for a dropped slot, and the experts of a token are
/// distinct. `stream` must be the compute lane.
///
/// The host reads the ids, in the read "routing: ids", if rows belong to tokens or have padding. Otherwise, the rows
/// are sorted on the device of the ids, and the host reads only their counts, in the read "routing: counts". This read
/// returns the counts of all ranks of `counting` if `counting` is set. The call is then collective over `counting`, and
/// `of` must contain only this rank.
///
/// A wrong id throws Error(communication) if `senders` is set, otherwise std::logic_error. A wrong id of another rank
/// of `counting` throws Error(communication). Also throws std::logic_error if a token names an expert twice, provided
/// that the host reads the ids or has them in its memory.
std::vector<SlotOrder> order_slots(const Tensor& ids, const Ordering& ordering, std::span<const int> of,
                                   Stream& stream);
/// Returns the slot order of a single rank.
SlotOrder order_slots(const Tensor& ids, const Ordering& ordering, int rank, Stream& stream);

}  // namespace hexad::ep
