// Who sends which rows where: the one object behind dispatch and combine.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/comm/process_group.h"
#include "parallel/ep/slot_order.h"

namespace hexad::ep {

/// The ranks over which the experts of a layer lie: in blocks over `ep`, each expert's width over `etp`, and both at
/// once (rank p etp + j of `experts` is p of `ep` and j of `etp`).
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
};

/// How the etp ranks that share an expert's width come by the rows, all of which each of them needs, and how their
/// results, which are addends, return.
enum class Spread : uint8_t {
  gather,  // a row goes to one of them, they gather; results are added up where the row came in
  direct,  // a row goes to each of them in one all-to-all over all expert ranks (Parm's EP&ESP-AlltoAll); the addends
           // return and are added up by the row's owner
  held,    // each is sent all rows by ranks that hold the same tokens; results are added up on all of them
};

constexpr auto enum_names(Spread) {
  return std::to_array<std::pair<Spread, std::string_view>>(
      {{Spread::gather, "gather"}, {Spread::direct, "direct"}, {Spread::held, "held"}});
}

/// The rows that travel and are computed together.
struct Chunk {
  int64_t slots_begin = 0, slots_end = 0;  // its rows among the slot rows, ...
  int64_t wire_begin = 0, wire_end = 0;    // ... and among the rows that are sent
  comm::Splits splits;                     // rows to and from each rank of the all-to-all
  std::vector<int64_t> shared;             // [etp]: rows that each of the gathering ranks received
  Tensor place;                            // [R] i64: grouped row of each row that is there; undefined: its own
  std::vector<int64_t> offsets;            // [E/P + 1]: grouped rows of each local expert

  int64_t slots() const { return slots_end - slots_begin; }
  /// Its part of a tensor with an entry for each row to send.
  Tensor of(const Tensor& wire) const { return wire.slice(0, wire_begin, wire_end); }
  int64_t rows_to_send() const { return wire_end - wire_begin; }
  int64_t rows_received() const;
  int64_t rows_computed() const { return offsets.back(); }
};

/// Made from the experts chosen by T local tokens in K slots; see SlotOrder for the order of the S slot rows. Grouped
/// rows are sorted by expert, then etp rank, then ep rank of their source, then token, whatever the spread. Counts and
/// offsets are int64.
struct RoutingPlan {
  Spread spread = Spread::gather;
  Tensor tokens;       // [S] i64: token of each slot row
  Tensor rows;         // [T, K] i64: slot row of each slot; -1: dropped
  Tensor wire_slots;   // [W] i64: slot row of each row to send; undefined: its own
  Tensor wire_tokens;  // [W] i64: token of each row to send
  Tensor copies;       // [S, etp] i64: rows to send of each slot row, counted within its chunk; undefined: its own
  std::vector<Chunk> chunks;
  /// Whether the chunks' rows are computed together: `place` and `offsets` then count over all of them.
  bool merged = false;

  int64_t slots() const { return tokens.dim(0); }
  int64_t rows_received() const;
  int64_t rows_computed() const;
  /// Of a chunk on its own, or of all when they are computed together.
  const comm::ProcessGroup& all_to_all_group(const ExpertGroups& g) const {
    return spread == Spread::direct ? *g.experts : *g.ep;
  }
};

struct PlanOptions {
  Cutting cutting{};
  Spread spread = Spread::gather;
  bool merged = false;
};

/// Collective over the groups: the ranks exchange their counts by chunk and expert once (the full matrix), before any
/// data moves. `order` is cut as the options say.
RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options);
/// The same, of ids [T, K] i32, entries in [0, experts) or -1 for a dropped slot.
RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const ExpertGroups& groups,
                              const PlanOptions& options = {});

}  // namespace hexad::ep
