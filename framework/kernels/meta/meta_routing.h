// Choice of experts by tokens on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Replaces `ids` [T, K], chosen from `experts` by a router of any kind, with the choice of the meta device's routing
/// model. Does nothing on any other device or without such a model. `given` is true if the recipe has fixed the ids,
/// false if a router has chosen them. `layer` is the number among the layers with experts; -1: not known.
void choose_on_meta_device(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given, int64_t layer = -1);

}  // namespace hexad::kernels
