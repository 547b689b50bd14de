// Routing plan of given ids: the slot order and the routing plan in one call.
#pragma once

#include "parallel/ep/routing_plan.h"

namespace hexad::tests {

/// Returns the routing plan for ids [T, K] i32, with entries in [0, experts) or -1 for a dropped slot. Collective over
/// `groups`.
inline ep::RoutingPlan plan_for_ids(const tensor::Tensor& ids, int64_t experts, const ep::ExpertGroups& groups,
                                    const ep::RoutingOptions& options, device::Stream& stream) {
  const ep::Ordering ordering{experts, groups.ep->size(), options.chunking, options.row_of};
  return ep::make_routing_plan(ep::order_slots(ids, ordering, groups.ep->rank(), stream), groups, options, stream);
}

}  // namespace hexad::tests
