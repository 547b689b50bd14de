// Choice of experts by tokens on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Replaces `ids` [T, K], chosen from `experts` by a router of any kind, with the choice of the meta device's routing
/// model. Does nothing on any other device or without such a model. `given` is true if the recipe has fixed the ids,
/// false if a router has chosen them.
void choose_on_meta_device(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given);

}  // namespace hexad::kernels
