#include "tools/train/recipe/device_choice.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "framework/base/enum_names.h"

namespace hexad::train {

using base::cat;
using config::Problems;
using device::DeviceKind;

void replace_device(Recipe& r, DeviceKind device) {
  const DeviceKind before = std::exchange(r.device, device);
  if (before == device) return;
  DistributedConfig& distributed = r.distributed;
  if (before == DeviceKind::cpu && r.schedule.worker_lanes.value_or(false)) r.schedule.worker_lanes.reset();
  if (before != DeviceKind::cuda) return;
  if (distributed.device_collectives == comm::DeviceCollectives::nccl)
    distributed.device_collectives = comm::DeviceCollectives::automatic;
  distributed.reserve_multiprocessors.reset();
}

std::optional<DeviceKind> device_of_environment(Problems& problems) {
  const char* wanted = std::getenv("HEXAD_DEVICE");
  if (!wanted || !*wanted) return {};
  if (const auto kind = base::enum_named<DeviceKind>(wanted)) return kind;
  std::string names;
  for (const auto& [kind, name] : enum_names(DeviceKind{})) names += (names.empty() ? "" : ", ") + std::string(name);
  problems.add("device", cat("is set by HEXAD_DEVICE=", wanted, ", which is not a device; expected one of ", names));
  return {};
}

void check_device(const Recipe& r, Problems& problems) {
  if (r.device != DeviceKind::cpu && r.schedule.worker_lanes.value_or(false))
    problems.add("schedule.worker_lanes",
                 cat("must be auto or false on device: ", name_of(r.device), "; only device: cpu has worker lanes"));
  if (r.device != DeviceKind::cuda && r.distributed.device_collectives == comm::DeviceCollectives::nccl)
    problems.add("distributed.device_collectives",
                 cat("needs device: cuda, but device is ", name_of(r.device), "; set auto or host"));
  if (r.distributed.register_buffers && r.distributed.device_collectives == comm::DeviceCollectives::host)
    problems.add("distributed.register_buffers",
                 "needs NCCL, but distributed.device_collectives is host; set device_collectives: auto or nccl, or "
                 "register_buffers: false");
  if (r.device != DeviceKind::cuda && r.distributed.reserve_multiprocessors.value_or(0) > 0)
    problems.add("distributed.reserve_multiprocessors",
                 cat("needs device: cuda, but device is ", name_of(r.device), "; set auto or 0"));
}

}  // namespace hexad::train
