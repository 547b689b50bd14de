// Choice of experts by tokens on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// On a meta device with a routing model, replaces `ids` [T, K], chosen from `experts` by a router of any kind, with
/// the choice of that model. Does nothing on any other device. `given` is true if the recipe has fixed the ids, false
/// if a router has chosen them.
void choose_on_meta_device(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given);

}  // namespace hexad::kernels
