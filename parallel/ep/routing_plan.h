// Who sends which rows where: the one object behind dispatch and combine.
#pragma once

#include <optional>
#include <vector>

#include "parallel/ep/expert_groups.h"
#include "parallel/ep/node_steps.h"
#include "parallel/ep/plan_options.h"

namespace hexad::ep {

/// The rows that travel and are computed together. R of them are there when they have arrived; C are computed, one for
/// each slot.
struct Chunk {
  int64_t slots_begin = 0, slots_end = 0;  // its rows among the slot rows, ...
  int64_t wire_begin = 0, wire_end = 0;    // ... and among the rows that are sent
  comm::Splits splits;                     // rows to and from each rank of the all-to-all
  std::optional<NodeSteps> steps;          // of an all-to-all that is hierarchical
  std::vector<int64_t> shared;             // [etp]: rows that each of the gathering ranks received
  std::vector<int64_t> offsets;            // [E/P + 1]: grouped rows of each local expert; where only the device knows
                                           // them, as though all had equally many of those there is room for
  Tensor device_offsets{};                 // [E/P + 1] i64; undefined: the host knows them
  Tensor place;                            // [C] i64: grouped row of each row computed; undefined: its own
  // Rows of tokens; undefined where a row is a slot's:
  Tensor source;   // [C] i64: row that is there of which each row computed is a copy, ...
  Tensor entry;    // [C] i64: ... and which of the [R, M] slots of those rows it stands for
  Tensor reduced;  // [R, M] i64: grouped rows that add up to what each row returns; -1: no more

  bool of_tokens() const { return source.defined(); }
  int64_t slots() const { return slots_end - slots_begin; }
  /// Its part of a tensor with an entry for each row to send; of none nothing.
  Tensor of(const Tensor& wire) const { return wire.defined() ? wire.slice(0, wire_begin, wire_end) : wire; }
  int64_t rows_to_send() const { return wire_end - wire_begin; }
  int64_t rows_received() const;
  int64_t rows_computed() const { return offsets.back(); }
};

/// Made from the experts chosen by T local tokens in K slots; see SlotOrder for the order of the S slot rows, each of
/// which is a slot's, or a token's on one rank. Grouped rows are slots', sorted by expert, then etp rank, then ep rank
/// of their source, then token, whatever the spread and whatever the rows are of. Counts and offsets are int64.
///
/// The order of all sums: a rank adds up what its experts give for a token in the order of the token's slots; then the
/// token's rank adds up what comes back from etp ranks in their order, and slot rows in the order of their first slots.
struct RoutingPlan {
  Spread spread = Spread::gather;
  AllToAll all_to_all = AllToAll::direct;
  RowOf row_of = RowOf::slot;
  Tensor tokens;       // [S] i64: token of each slot row
  Tensor rows;         // [T, K] i64: slot row of each slot; -1: dropped, or an earlier slot of the token has it
  Tensor row_slots;    // [S, M] i64: slots t K + k of each slot row, in order; -1: no more; undefined in a local plan
  Tensor wire_slots;   // [W] i64: slot row of each row to send; undefined: its own
  Tensor wire_tokens;  // [W] i64: token of each row to send
  Tensor copies;       // [S, etp] i64: rows to send of each slot row, counted within its chunk; undefined: its own
  std::vector<Chunk> chunks;
  /// Whether the chunks' rows are computed together: `place` and `offsets` then count over all of them.
  bool merged = false;

  int64_t slots() const { return tokens.dim(0); }
  /// M: 1 for rows of slots.
  int64_t slots_per_row() const { return row_slots.defined() ? row_slots.dim(1) : 1; }
  int64_t rows_received() const;
  int64_t rows_computed() const;
  /// Of a chunk on its own, or of all when they are computed together.
  const comm::ProcessGroup& all_to_all_group(const ExpertGroups& g) const {
    return spread == Spread::direct ? *g.experts : *g.ep;
  }
  /// Its two levels; null: rows are sent in one step.
  const comm::NodeGroups* node_groups(const ExpertGroups& g) const {
    if (all_to_all == AllToAll::direct) return nullptr;
    return spread == Spread::direct ? g.experts_nodes : g.ep_nodes;
  }
};

/// Collective over the groups: the ranks exchange their counts by chunk and expert once (the full matrix), and for rows
/// of tokens the experts of each row, before any data moves. `order` is made as the options say.
RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options);
/// The same, of ids [T, K] i32, entries in [0, experts) or -1 for a dropped slot.
RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const ExpertGroups& groups,
                              const PlanOptions& options = {});

/// The plan of a rank that has all experts, in one chunk of rows of slots, made where the ids are: the host learns
/// nothing. There is room for all T K slots; rows of dropped ones come last and are nobody's.
RoutingPlan make_local_plan(const Tensor& ids, int64_t experts, Stream& stream);
/// The plan with its index tensors on `device`.
RoutingPlan plan_on(RoutingPlan plan, Device device);

}  // namespace hexad::ep
