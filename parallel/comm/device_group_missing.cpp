// Replacement for parallel/comm/nccl in programs built without CUDA.
#include "parallel/comm/device_group.h"

namespace hexad::comm {

using namespace base;

std::unique_ptr<ProcessGroup> make_device_group(const ProcessGroup& world, device::DeviceContext&,
                                                const DeviceGroupOptions& options) {
  if (options.collectives == DeviceCollectives::nccl && world.size() > 1)
    fail(ExitCode::usage,
         "distributed.device_collectives: nccl is not available, because this program was built without CUDA; use "
         "auto, or build with CUDA: run `cmake --preset cuda`, then `cmake --build --preset cuda`");
  return nullptr;
}

std::optional<ConnectionMemory> connection_memory(const ProcessGroup&) { return {}; }

}  // namespace hexad::comm
