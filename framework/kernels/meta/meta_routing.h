// Choice of experts by tokens on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Replaces `ids` [T, K], chosen from `experts` by a router of any kind, with the choice of the device's routing model.
/// `given` is true if the recipe has fixed the ids, false if a router has chosen them. Does nothing without a routing
/// model, and thus on every device but meta.
void apply_routing_model(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given);

}  // namespace hexad::kernels
