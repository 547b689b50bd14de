// Kernels of the meta device, which count operations and bytes and compute only routing.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Returns the kernels of a meta device that imitates `stands_for`. Entries that return a property of a kernel return
/// the property of the kernel of `stands_for`. Products, attention and the delta rule add their operations to the
/// device's MetaRun. Routers use the run's routing model, and experts choose tokens in turn. For routers without a
/// kernel, layers call this model (framework/kernels/meta/meta_routing.h). Kernels that drop, mask or sort slots
/// compute with the resulting ids, because the host needs the number of rows of each expert. All other kernels only
/// invalidate the tensors that they would overwrite. If the run keeps a log, kernels append their work.
const KernelTable& meta_kernels(device::DeviceKind stands_for);

}  // namespace hexad::kernels
