// Plan of which rank sends which rows where: the one object behind dispatch and combine.
#pragma once

#include "parallel/ep/plan_counts.h"
#include "parallel/ep/plan_indices.h"

namespace hexad::ep {

/// Made from the experts chosen by T local tokens in K slots; see SlotOrder for the order of the S slot rows, each of
/// which is a slot's, or a token's on one rank. Grouped rows are slots', sorted by expert, then etp rank, then ep rank
/// of their source, then token, whatever the exchange and whatever the rows are of. Counts and offsets are int64.
///
/// The order of all sums: a rank adds up what its experts give for a token in the order of the token's slots; then the
/// token's rank adds up what comes back from etp ranks in their order, and slot rows in the order of their first slots.
struct RoutingPlan {
  PlanCounts counts;    // what the host knows
  PlanIndices indices;  // what the device reads
};

/// Collective over the groups: the ranks exchange their counts by chunk and expert once (the full matrix), and for rows
/// of tokens the experts of each row, before any data moves. `order` is made as the options say; index tensors lie
/// where its are.
RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options,
                              Stream& stream);
/// The same, of ids [T, K] i32, entries in [0, experts) or -1 for a dropped slot. `senders`: see Ordering.
RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const ExpertGroups& groups,
                              const PlanOptions& options, Stream& stream, const comm::ProcessGroup* senders = nullptr);

/// The plan of a rank that has all experts, in one chunk of rows of slots, made where the ids are: the host learns
/// nothing. There is room for all T K slots; rows of dropped ones come last and belong to no expert.
RoutingPlan make_local_plan(const Tensor& ids, int64_t experts, Stream& stream);

}  // namespace hexad::ep
