// Host part of a routing plan: the number of rows for each destination. It is the only part that the task graph of a
// pass needs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/comm/node_groups.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/windows.h"
#include "parallel/ep/phased_return.h"
#include "parallel/ep/routing_options.h"

namespace hexad::ep {

/// Process groups of the experts of a layer. The ranks of `ep` divide the experts. The ranks of `etp` divide the width
/// of each expert. `experts` contains the ranks of both groups: rank p * etp + j of `experts` is rank p of `ep` and
/// rank j of `etp`.
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
  /// Two levels of `ep` and of `experts`. Null in three cases: all ranks of the group are on one node, each node has
  /// only one rank of the group, or the nodes have different numbers of its ranks.
  const comm::NodeGroups *ep_nodes = nullptr, *experts_nodes = nullptr;
  comm::Windows* windows = nullptr;  // windows of the ranks of `ep`; null: the ranks have none

  /// Returns the group whose counts a rank needs. With EspExchange::replicated, each etp rank receives the same rows
  /// from its own ep group, so the counts of that group suffice.
  const comm::ProcessGroup& sources(EspExchange esp_exchange) const {
    return esp_exchange == EspExchange::replicated ? *ep : *experts;
  }
};

/// Counts of one chunk. The rows of a chunk are sent together, and are computed together if RoutingCounts::merged is
/// false. R is the number of rows that this rank has received and gathered. C is the number of rows that it computes,
/// one for each slot. E is the number of experts, P the number of ep ranks, and H the number of hot experts. The base
/// class has the numbers of rows of the dispatch.
struct ChunkCounts : MovedRows {
  int64_t slots_begin = 0, slots_end = 0;  // range of the slot rows that return in the chunk
  int64_t wire_begin = 0, wire_end = 0;    // range of the chunk's rows to send
  /// Counts of the rows that return in the chunk. As in the dispatch, splits.send counts the rows of this rank's
  /// tokens, and splits.receive counts the rows of this rank's experts. Set only if rows are joined; otherwise, rows
  /// return in the chunk in which they are sent.
  std::optional<MovedRows> returned{};
  int64_t arrived_begin = 0;   // joined rows: number of rows that have arrived in earlier chunks
  int64_t computed_begin = 0;  // joined rows: number of rows that are computed in earlier chunks
  /// [E/P + H + 1]: offsets of the grouped rows of each own expert, then of each shadow. In a routing plan of
  /// make_local_routing_plan(), the offsets are estimates, because only the device has the exact offsets. The last
  /// offset is then the number of the chunk's rows, including the rows of dropped slots.
  std::vector<int64_t> offsets;
  std::vector<int64_t> shadow_offsets;  // [H + 1]: the shadows' offsets, from the first shadow row on; empty if H = 0
  int64_t rows_in_chunk = 0;            // C of this chunk, even if `offsets` covers the rows of all chunks
  // True if rows are reordered (ChunkIndices::place) or copied (ChunkIndices::source) before they are computed.
  bool placed = false;

  int64_t slots() const { return slots_end - slots_begin; }
  /// Returns the chunk's part of a tensor with one entry for each row to send; undefined if `wire` is undefined.
  Tensor part_of(const Tensor& wire) const { return wire.defined() ? wire.slice(0, wire_begin, wire_end) : wire; }
  int64_t rows_to_send() const { return wire_end - wire_begin; }
  int64_t rows_received() const;
  /// Returns the counts of the rows that return in this chunk.
  const MovedRows& return_counts() const { return returned ? *returned : *this; }
  /// Returns the number of rows that return to this rank in this chunk.
  int64_t rows_to_get_back() const;
  /// Returns the number of rows that this rank returns in this chunk.
  int64_t rows_to_return() const;
  int64_t rows_computed() const { return offsets.back(); }
  /// Returns the offsets of this rank's own experts, [E/P + 1].
  std::span<const int64_t> own_offsets() const {
    const size_t shadows = shadow_offsets.empty() ? 0 : shadow_offsets.size() - 1;
    return std::span(offsets).first(offsets.size() - shadows);
  }
};

/// Counts of all chunks, and the options with which the routing plan was made.
struct RoutingCounts {
  EspExchange esp_exchange = EspExchange::gather;
  AllToAll all_to_all = AllToAll::direct;
  RowOf row_of = RowOf::slot;
  /// True if the rows of all chunks are computed together. ChunkIndices::place and ChunkCounts::offsets then refer to
  /// the rows of all chunks.
  bool merged = false;
  /// True if rows are joined (joins_rows()). The row of a token for a rank is then sent in the first chunk with any of
  /// its slots. It returns in the last such chunk.
  bool joined = false;
  int64_t slots_per_row = 1;  // M, the maximum number of slots of a row; 1 with RowOf::slot
  HotExperts hot{};           // the H hot experts, of which every ep rank has a shadow
  std::vector<ChunkCounts> chunks;
  /// Windows in which all chunks are exchanged; null: rows are sent as messages. Also null if the windows are too small
  /// for the rows that some rank receives. The next call of comm::Windows::grow() then enlarges them.
  comm::Windows* windows = nullptr;
  /// Phases in which rows return. Empty if the rows of a chunk return in one all-to-all. There is only one chunk if
  /// there are phases.
  PhasedReturn phased;

  bool in_phases() const { return !phased.phases.empty(); }
  /// Returns S, the total number of slot rows.
  int64_t slots() const { return chunks.back().slots_end; }
  int64_t rows_received() const;
  int64_t rows_computed() const;
  /// Returns the number of rows that this rank has received and gathered in all chunks.
  int64_t rows_gathered() const;
  /// Returns the group in which the all-to-all is performed.
  const comm::ProcessGroup& all_to_all_group(const ExpertGroups& g) const {
    return esp_exchange == EspExchange::direct ? *g.experts : *g.ep;
  }
  /// Returns the two levels of all_to_all_group(); null if the all-to-all is a single step.
  const comm::NodeGroups* node_groups(const ExpertGroups& g) const {
    if (all_to_all != AllToAll::hierarchical) return nullptr;
    return esp_exchange == EspExchange::direct ? g.experts_nodes : g.ep_nodes;
  }
};

}  // namespace hexad::ep
