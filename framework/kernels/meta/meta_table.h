// Kernels of the meta device: they do nothing, and count.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Kernels of a meta device that stands for `stands_for`, whose kernels answer the host's questions. Products and
/// attention add their operations to the device's MetaRun. Routers ask its routing model, as layers do for routers that
/// ask no kernel (framework/kernels/meta/meta_routing.h), and kernels that order slots work on the ids that it gave:
/// so the host gets the row counts of a run with such routing. Other kernels do nothing and forget the results that
/// they overwrite.
const KernelTable& meta_kernels(device::DeviceKind stands_for);

}  // namespace hexad::kernels
