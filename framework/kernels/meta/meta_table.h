// Kernels of the meta device. They count operations and bytes, and compute nothing.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Returns the kernels of a meta device that represents `stands_for`, whose kernels answer the host's questions.
/// Products and attention add their operations to the device's MetaRun. Routers use the run's routing model; layers do
/// the same for routers without a kernel (framework/kernels/meta/meta_routing.h). Kernels that order slots work on the
/// resulting ids, so the host gets the row counts of a run with this routing. All other kernels only invalidate the
/// results that they would overwrite.
const KernelTable& meta_kernels(device::DeviceKind stands_for);

}  // namespace hexad::kernels
