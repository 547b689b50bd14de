// Order in which a rank sends the rows of its tokens, and their division into chunks.
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
/// only on its token and expert, so that ranks agree on it without communication.
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
  /// Returns the chunk of a slot: that of token `token` among `tokens` tokens for expert `expert`, on rank `rank` of
  /// `ranks`.
  int chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const;
};

/// Meaning of a row.
enum class RowOf : uint8_t {
  slot,   // a row is a copy of a token for one of its experts, and returns the result of that expert
  token,  // a row is a copy of a token for a rank with any of its experts, and returns one weighted sum (EPS-MoE's
          // LocalReduce). If chunks are not of experts, there is a row for each chunk
};
constexpr auto enum_names(RowOf) {
  return std::to_array<std::pair<RowOf, std::string_view>>({{RowOf::slot, "slot"}, {RowOf::token, "token"}});
}

/// True if the rows of a token for a rank are joined over chunks: the row is sent in the first chunk with any of its
/// slots, and returns in the last one as a sum over all chunks (EPS-MoE's LocalReduce over expert groups).
inline bool joins_rows(const Chunking& chunking, RowOf row_of) {
  return row_of == RowOf::token && chunking.by == Chunking::By::experts && chunking.chunks > 1;
}

/// Slots of a rank that are not dropped, arranged as rows. Rows are sorted by chunk, expert (or, if rows belong to
/// tokens, by rank of the expert), token and slot. Therefore results are deterministic, and the rows for one rank in
/// one chunk are contiguous. The chunk of a joined row is the one in which it returns. Tensors are on the device of the
/// ids.
struct SlotOrder {
  int64_t experts = 0;
  std::vector<int64_t> counts;   // [chunks, experts]: numbers of slots
  std::vector<int64_t> rows_to;  // [chunks, ranks]: numbers of rows to send
  Tensor tokens;                 // [S] i64: token of each row
  Tensor rows;  // [T, K] i64: row of each slot; -1: dropped, or in the row of an earlier slot of the token
  // The two tensors below are defined only if rows belong to tokens, the first one also if there is padding.
  Tensor row_slots;    // [S, M] i64: slots t K + k of each row, in order; -1: no more slots
  Tensor row_experts;  // [S, M] i32, on the host: experts of these slots, numbered within their rank
  // The members below are set only if rows are joined.
  bool joined = false;
  std::vector<int64_t> returns_from;  // [chunks, ranks]: numbers of rows by the chunk in which they return
  std::vector<int64_t> sent;          // [S]: rows by the chunk in which they are sent, rank and token
  std::vector<int64_t> by_rank;       // [S]: rows by rank and token

  int64_t size() const { return tokens.dim(0); }
  /// Returns the numbers of rows [chunks, ranks] in the order of the rows.
  const std::vector<int64_t>& rows_from() const { return joined ? returns_from : rows_to; }
};

/// Arguments of order_slots().
struct Ordering {
  int64_t experts;  // number of experts, which the ranks have in equal blocks
  int ranks;        // number of ranks in an ep group
  Chunking chunking{};
  RowOf row_of = RowOf::slot;
  /// Group whose ranks sent the ids; errors name the sender of a wrong id. Null if the ids are this rank's own.
  const comm::ProcessGroup* senders = nullptr;
  /// Capacity of an expert as a multiple of its mean number of slots, up to which a rank sends padding; 0: no padding.
  double capacity = 0;
};

/// Returns the slot orders of the ranks `of`, which are ranks in their ep groups. ids [T, K] (i32) contains the tokens
/// of these ranks one after the other, in equal numbers. Each id is in [0, experts), or -1 for a dropped slot. M is the
/// maximum number of different experts of a token on one rank. `stream` must be the compute lane.
///
/// If rows belong to slots, they are sorted on the device of the ids, and the host reads only their counts ("routing:
/// counts"). If rows belong to tokens, or with padding, the host reads the ids ("routing: ids"). A wrong id throws
/// Error(communication) if `senders` is set, otherwise std::logic_error.
std::vector<SlotOrder> order_slots(const Tensor& ids, const Ordering& ordering, std::span<const int> of,
                                   Stream& stream);
/// Returns the slot order of a single rank.
SlotOrder order_slots(const Tensor& ids, const Ordering& ordering, int rank, Stream& stream);

}  // namespace hexad::ep
