// Routing plan of dispatch and combine: the rows that each rank sends to every other rank.
#pragma once

#include "parallel/ep/routing_counts.h"
#include "parallel/ep/routing_indices.h"

namespace hexad::ep {

/// Routing plan for T local tokens with K slots each. The S slot rows are in the order that SlotOrder describes. A slot
/// row belongs to a slot, or to a token and a rank. Grouped rows are the rows that this rank's experts compute. Each
/// grouped row belongs to a slot. With all options, grouped rows are sorted by expert, then by the etp rank, ep rank
/// and token of their source. Counts and offsets are i64.
///
/// The order of all sums is fixed. First, a rank sums the results of its experts for a token in the order of the
/// token's slots. Then the results of etp ranks are summed in the order of the ranks, on the rank that EspExchange
/// determines. (EspExchange::replicated sums like ProcessGroup::all_reduce().) Finally, the rank of the token sums slot
/// rows in the order of their first slots.
struct RoutingPlan {
  RoutingCounts counts;    // host part
  RoutingIndices indices;  // device part
};

/// Makes the routing plan for `order`, which must have been made with the same options. Index tensors are on the device
/// of the tensors of `order`. Collective over the groups. The ranks exchange their counts by chunk and expert (the full
/// matrix) if `order` does not have the counts of all ranks. The ranks also exchange the experts of each row if rows
/// belong to tokens. Throws Error(communication) if another rank sent wrong counts or experts, and std::logic_error if
/// the options contradict each other.
RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const RoutingOptions& options,
                              Stream& stream);

/// Makes the routing plan of a rank that has all experts, with rows that belong to slots and `chunks` chunks of tokens
/// (Chunking::By::tokens). The device of the ids computes it, and the host reads nothing. There are T * K slot rows: K
/// for each token of a chunk. In each chunk, the rows of dropped slots come last and belong to no expert. Throws
/// std::logic_error if `chunks` is less than 1.
RoutingPlan make_local_routing_plan(const Tensor& ids, int64_t experts, int chunks, Stream& stream);

}  // namespace hexad::ep
