#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

const KernelTable& kernels(const Device& device) {
  if (device.kind() == device::DeviceKind::cpu) return cpu_table;
  fail(
      ExitCode::resource,
      "[kernels] the tensor is on a CUDA device, but this program was built without the CUDA backend; use device: cpu");
}

}  // namespace hexad::kernels
