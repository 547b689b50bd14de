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
  for (int i = 0; i < lane_count; ++i) {
    const Lane lane = static_cast<Lane>(i);
    if (options.worker_lanes && lane != Lane::compute)
      lanes_[static_cast<size_t>(i)] = make_worker_stream(base::cat("lane-", name_of(lane)));
    else
      lanes_[static_cast<size_t>(i)] = std::make_unique<InlineStream>();
  }
}

DeviceContext::~DeviceContext() = default;

const std::shared_ptr<Allocator>& DeviceContext::offload_allocator() {
  if (!offload_) offload_ = std::make_shared<OffloadArena>(offload_folder_);
  return offload_;
}

}  // namespace hexad::device
