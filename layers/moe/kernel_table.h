// The kernels of a tensor's device.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::moe {

/// Returns the kernels of the device of `t`.
inline const kernels::KernelTable& table(const tensor::Tensor& t) { return kernels::kernels(t.device()); }

}  // namespace hexad::moe
