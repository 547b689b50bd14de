// Host part of a routing plan: the number of rows for each destination. The task graph of a pass needs no other part.
#pragma once

#include <optional>
#include <vector>

#include "parallel/comm/node_groups.h"
#include "parallel/comm/process_group.h"
#include "parallel/ep/phased_return.h"
#include "parallel/ep/plan_options.h"

namespace hexad::ep {

/// Process groups of the experts of a layer. `ep` divides the experts into blocks. `etp` divides the width of each
/// expert. `experts` contains the ranks of both: its rank p etp + j is rank p of `ep` and rank j of `etp`.
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
  /// Two levels of `ep`, and of `experts`. Null if the group is on one node or has only one rank on each node.
  const comm::NodeGroups *ep_nodes = nullptr, *experts_nodes = nullptr;
};

/// Counts of one chunk, whose rows are sent and computed together. R is the number of rows on this rank after receiving
/// and gathering. C is the number of rows that are computed, one for each slot.
struct ChunkCounts : MovedRows {
  int64_t slots_begin = 0, slots_end = 0;  // range of the slot rows that return in the chunk
  int64_t wire_begin = 0, wire_end = 0;    // range of the chunk's rows to send
  /// Rows that return in the chunk, in the direction of dispatch; unset: the rows that are sent. Set if rows are
  /// joined.
  std::optional<MovedRows> returned{};
  int64_t arrived_begin = 0;     // joined rows: number of rows that have arrived in earlier chunks
  int64_t computed_begin = 0;    // joined rows: number of rows that are computed in earlier chunks
  std::vector<int64_t> offsets;  // [E/P + 1]: offsets of each local expert's grouped rows; a local plan, whose offsets
                                 // only the device has, divides all rows evenly
  int64_t rows_in_chunk = 0;     // C, even if `offsets` covers the rows of all chunks
  bool placed = false;           // true if rows are copied to other places before they are computed

  int64_t slots() const { return slots_end - slots_begin; }
  /// Returns the chunk's part of a tensor with one entry for each row to send; undefined if `wire` is undefined.
  Tensor part_of(const Tensor& wire) const { return wire.defined() ? wire.slice(0, wire_begin, wire_end) : wire; }
  int64_t rows_to_send() const { return wire_end - wire_begin; }
  int64_t rows_received() const;
  const MovedRows& back() const { return returned ? *returned : *this; }
  /// Returns the number of rows that return to this rank, and of those that this rank returns, in this chunk.
  int64_t rows_to_get_back() const;
  int64_t rows_to_return() const;
  int64_t rows_computed() const { return offsets.back(); }
};

/// Counts of all chunks, and the options with which the plan was made.
struct PlanCounts {
  EspExchange esp_exchange = EspExchange::gather;
  AllToAll all_to_all = AllToAll::direct;
  RowOf row_of = RowOf::slot;
  /// True if the rows of all chunks are computed together. ChunkIndices::place and ChunkCounts::offsets then refer to
  /// the rows of all chunks.
  bool merged = false;
  /// True if a token's row for a rank is sent in the first chunk with any of its slots, and returns in the last one
  /// (joins_rows()).
  bool joined = false;
  int64_t slots_per_row = 1;  // M, the maximum number of slots of a row; 1 if a row belongs to a slot
  std::vector<ChunkCounts> chunks;
  /// Phases in which the rows of the only chunk return; without phases, they return in one all-to-all.
  PhasedReturn phased;

  bool in_phases() const { return !phased.phases.empty(); }
  /// Returns S, the total number of slot rows.
  int64_t slots() const { return chunks.back().slots_end; }
  int64_t rows_received() const;
  int64_t rows_computed() const;
  /// Returns the number of rows on this rank after receiving and gathering.
  int64_t rows_gathered() const;
  /// Returns the group in which the all-to-all is performed.
  const comm::ProcessGroup& all_to_all_group(const ExpertGroups& g) const {
    return esp_exchange == EspExchange::direct ? *g.experts : *g.ep;
  }
  /// Returns the two levels of that group; null if rows are sent in a single step.
  const comm::NodeGroups* node_groups(const ExpertGroups& g) const {
    if (all_to_all == AllToAll::direct) return nullptr;
    return esp_exchange == EspExchange::direct ? g.experts_nodes : g.ep_nodes;
  }
};

}  // namespace hexad::ep
