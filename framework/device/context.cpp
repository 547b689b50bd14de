#include "framework/device/context.h"

#include "framework/base/error.h"
#include "framework/device/offload_arena.h"

namespace hexad::device {

std::string_view name_of(Lane lane) {
  constexpr std::string_view names[] = {"inter", "intra", "copy", "compute"};
  return names[static_cast<size_t>(lane)];
}

DeviceContext::DeviceContext(const Options& options)
    : allocator_(std::make_shared<CachingAllocator>(options.memory_limit, options.poison)),
      offload_folder_(options.offload_folder) {
  for (auto& lane : lanes_) lane = std::make_unique<InlineStream>();
  run_lanes_by_themselves(options.worker_lanes);
}

void DeviceContext::run_lanes_by_themselves(bool wanted) {
  if (wanted == lanes_run_by_themselves()) return;
  for (const Lane lane : {Lane::inter, Lane::intra, Lane::copy}) {
    auto& stream = lanes_[static_cast<size_t>(lane)];
    stream = wanted ? make_worker_stream(base::cat("lane-", name_of(lane))) : std::make_unique<InlineStream>();
  }
}

DeviceContext::~DeviceContext() = default;

const std::shared_ptr<Allocator>& DeviceContext::offload_allocator() {
  if (!offload_) offload_ = std::make_shared<OffloadArena>(offload_folder_);
  return offload_;
}

}  // namespace hexad::device
