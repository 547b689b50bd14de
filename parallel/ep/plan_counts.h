// The host's half of a routing plan: the number of rows for each destination. A schedule's graph is made from it alone.
#pragma once

#include <optional>
#include <vector>

#include "parallel/comm/node_groups.h"
#include "parallel/comm/process_group.h"
#include "parallel/ep/node_steps.h"
#include "parallel/ep/plan_options.h"

namespace hexad::ep {

/// Groups of the ranks that hold a layer's experts. Experts are in blocks over `ep`, each expert's width over `etp`,
/// and both at once (rank p etp + j of `experts` is p of `ep` and j of `etp`).
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
  /// The two levels of ep and of experts; null: they have none, being on one node or on nodes with one rank.
  const comm::NodeGroups *ep_nodes = nullptr, *experts_nodes = nullptr;
};

/// The rows that travel and are computed together. R of them are there when they have arrived; C are computed, one for
/// each slot.
struct ChunkCounts {
  int64_t slots_begin = 0, slots_end = 0;  // its rows among the slot rows, ...
  int64_t wire_begin = 0, wire_end = 0;    // ... and among the rows that are sent
  comm::Splits splits;                     // rows to and from each rank of the all-to-all
  std::optional<NodeSteps> steps;          // of an all-to-all that is hierarchical
  std::vector<int64_t> shared;             // [etp]: rows that each of the gathering ranks received
  std::vector<int64_t> offsets;            // [E/P + 1]: grouped rows of each local expert; where only the device knows
                                           // them, as though all had equally many of those there is room for
  int64_t rows_in_chunk = 0;               // C, also where `offsets` counts the rows of all chunks
  bool placed = false;                     // rows are not computed as they arrive: they are copied to their places

  int64_t slots() const { return slots_end - slots_begin; }
  /// Its part of a tensor with an entry for each row to send; undefined where that is.
  Tensor of(const Tensor& wire) const { return wire.defined() ? wire.slice(0, wire_begin, wire_end) : wire; }
  int64_t rows_to_send() const { return wire_end - wire_begin; }
  int64_t rows_received() const;
  int64_t rows_computed() const { return offsets.back(); }
};

struct PlanCounts {
  EspExchange esp_exchange = EspExchange::gather;
  AllToAll all_to_all = AllToAll::direct;
  RowOf row_of = RowOf::slot;
  /// True if the chunks' rows are computed together: places and `offsets` then count over all of them.
  bool merged = false;
  int64_t slots_per_row = 1;  // M: 1 for rows of slots
  std::vector<ChunkCounts> chunks;

  /// Returns S, the number of slot rows.
  int64_t slots() const { return chunks.back().slots_end; }
  int64_t rows_received() const;
  int64_t rows_computed() const;
  /// Returns the group of the all-to-all.
  const comm::ProcessGroup& all_to_all_group(const ExpertGroups& g) const {
    return esp_exchange == EspExchange::direct ? *g.experts : *g.ep;
  }
  /// Returns the two levels of that group; null: rows are sent in one step.
  const comm::NodeGroups* node_groups(const ExpertGroups& g) const {
    if (all_to_all == AllToAll::direct) return nullptr;
    return esp_exchange == EspExchange::direct ? g.experts_nodes : g.ep_nodes;
  }
};

}  // namespace hexad::ep
