// Order in which a rank sends the rows that its tokens' slots ask for, and their division into chunks.
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

/// Chunks of rows are sent, computed and returned one after another. A pure function of a slot's token and expert
/// decides which chunk it belongs to: so ranks agree without asking each other.
struct Chunking {
  /// tokens: consecutive tokens, as equal in number as possible (MPMoE). peers: by the distance of the expert's rank in
  /// the ring of ranks, near ones first (FasterMoE's groups of workers). phases: the distances in turn (round robin),
  /// so that each chunk has about as much for other nodes on every rank (Parm's SAA). experts: consecutive experts of
  /// each rank (EPS-MoE).
  enum class By : uint8_t { tokens, peers, phases, experts };
  By by = By::tokens;
  int chunks = 1;

  /// Throws std::logic_error for a cut that makes no sense for these experts and ranks.
  void check(int64_t experts, int ranks) const;
  int chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const;
};

/// Unit that travels as one row.
enum class RowOf : uint8_t {
  slot,   // each expert of a token is sent a copy of its own and returns its result
  token,  // each rank that has any of a token's experts is sent one copy, and returns one weighted sum (EPS-MoE's
          // LocalReduce); of a chunk, where the cut parts a token's experts
};
constexpr auto enum_names(RowOf) {
  return std::to_array<std::pair<RowOf, std::string_view>>({{RowOf::slot, "slot"}, {RowOf::token, "token"}});
}

/// The kept slots of a rank as rows, sorted by chunk, expert (rows of tokens: the expert's rank), token, slot: so
/// results are deterministic, and what goes to one rank in one chunk lies together. Tensors lie where the ids are.
struct SlotOrder {
  int64_t experts = 0;
  std::vector<int64_t> counts;   // [chunks, experts]: slots
  std::vector<int64_t> rows_to;  // [chunks, ranks]: rows
  Tensor tokens;                 // [S] i64: token of each row
  Tensor rows;                   // [T, K] i64: row of each slot; -1: dropped, or an earlier slot of the token has it
  // Only for rows of tokens:
  Tensor row_slots;    // [S, M] i64: slots t K + k that go with each row, in order; -1: no more
  Tensor row_experts;  // [S, M] i32, on the host: experts of these slots, counted among those of one rank

  int64_t size() const { return tokens.dim(0); }
};

/// Rules by which slots become rows.
struct Ordering {
  int64_t experts;  // in equal blocks over ...
  int ranks;        // ... the ranks of an ep group
  Chunking chunking{};
  RowOf row_of = RowOf::slot;
  /// Group whose ranks the ids came from, blamed for an id that names no expert; null: they are this rank's own.
  const comm::ProcessGroup* senders = nullptr;
};

/// ids: [T, K] i32, entries in [0, experts) or -1 for a dropped slot, of the tokens of one rank after another, equally
/// many of each; `of` are these ranks' places in their ep groups. Returns an order for each of them. M is as many of a
/// token's K distinct experts as one rank can have. `stream` is the compute lane.
///
/// Rows of slots are sorted where the ids are, and the host reads their counts only ("routing: counts"); of rows of
/// tokens it reads the ids ("routing: ids"). Throws Error(communication) for ids of `senders` that name no expert,
/// std::logic_error for such ids of this rank.
std::vector<SlotOrder> order_slots(const Tensor& ids, const Ordering& ordering, std::span<const int> of,
                                   Stream& stream);
/// Returns the order of one rank.
SlotOrder order_slots(const Tensor& ids, const Ordering& ordering, int rank, Stream& stream);

}  // namespace hexad::ep
