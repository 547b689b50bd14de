// Kernels of the meta device: they do nothing, and count.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Of a meta device that stands for `kind`, whose kernels answer what the host asks. Products and attention add their
/// operations to the device's MetaRun. Routers ask its routing model, as layers do for those that ask no kernel
/// (framework/kernels/meta/routing_model.h), and what orders slots works on the ids that it gave: so the host gets
/// counts of rows that are those of a run with such routing. Other kernels do nothing and forget the results that they
/// overwrite.
const KernelTable& meta_kernels(device::DeviceKind stands_for);

}  // namespace hexad::kernels
