// Choice of experts by tokens on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Replaces `ids` [T, K], chosen from `experts` by a router of any kind, by the choice of the routing model of the
/// device's run. `given`: the recipe has chosen them, not a router. Does nothing without a routing model, that is on
/// every device but meta.
void apply_routing_model(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given);

}  // namespace hexad::kernels
