// Experts that tokens choose on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// `ids` [T, K], which a router of any kind chose of `experts`, become what the routing model of their device's run
/// says. `given`: the recipe chose them, and not a router. Does nothing where there is no such model: on every device
/// but meta.
void apply_routing_model(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given);

}  // namespace hexad::kernels
