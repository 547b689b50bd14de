// Choice of experts on a meta device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Replaces ids [T, K], which any kind of router has chosen among `experts`, by the choice of the meta device's routing
/// model. Does nothing on another device or if the run has no routing model. `given` is true if the recipe fixes the
/// ids, false if a router has chosen them. `layer` is the index among the layers with experts; -1: unknown.
void choose_on_meta_device(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given, int64_t layer = -1);

}  // namespace hexad::kernels
