// Routing plan of dispatch and combine: the rows that each rank sends to every other rank.
#pragma once

#include "parallel/ep/plan_counts.h"
#include "parallel/ep/plan_indices.h"

namespace hexad::ep {

/// Routing plan for T local tokens with K slots each. See SlotOrder for the order of the S slot rows. A slot row
/// belongs to a slot, or to a token and a rank. A grouped row always belongs to a slot. Grouped rows are sorted by
/// expert, then by the etp rank, ep rank and token of their source, for every exchange and both units of a row. Counts
/// and offsets are int64.
///
/// Sums have a fixed order. A rank sums the results of its experts for a token in the order of the token's slots. The
/// token's rank then sums the results of etp ranks in rank order, and slot rows in the order of their first slots.
struct RoutingPlan {
  PlanCounts counts;    // host part
  PlanIndices indices;  // device part
};

/// Makes the plan of `order`, which must be made with the same options. Index tensors are on the device of the tensors
/// of `order`. Collective over the groups. Before any rows are sent, the ranks exchange their counts by chunk and
/// expert once (the full matrix), and the experts of each row if rows are of tokens.
RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options,
                              Stream& stream);

/// Makes the plan of a rank that has all experts, with one chunk of rows of slots, on the device of the ids. The host
/// reads nothing. The plan has room for all T K slots. The rows of dropped slots come last and belong to no expert.
RoutingPlan make_local_plan(const Tensor& ids, int64_t experts, Stream& stream);

}  // namespace hexad::ep
