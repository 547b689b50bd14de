#include "nccl_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/device/kernel_loading.h"
#include "parallel/comm/thread_group.h"

namespace hexad::comm {

using namespace base;

void Failures::add(const Error& e) {
  {
    std::lock_guard lock(mutex_);
    failures_.push_back(e);
  }
  changed_.notify_all();
}

bool Failures::wait(std::optional<int> rank) {
  const std::string begin = rank ? cat("[nccl] rank ", *rank, ": ") : "";
  const auto its = [&](const Error& e) { return std::string_view(e.what()).starts_with(begin); };
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20),
                           [&] { return std::any_of(failures_.begin(), failures_.end(), its); });
}

std::vector<Error> Failures::all() {
  std::lock_guard lock(mutex_);
  return failures_;
}

void with_cards(int n, const std::function<void(const CardWorld&)>& body, DeviceGroupOptions options,
                Failures* failures, std::vector<int> node_of_rank) {
  device::load_kernels_at_start();
  options.collectives = DeviceCollectives::nccl;
  options.on_failure = [&](const Error& e) {
    if (failures)
      failures->add(e);
    else
      ADD_FAILURE() << e.what();
  };
  const auto on_rank = [&](const ProcessGroup& threads) {
    const device::ContextOptions place{.kind = device::DeviceKind::cuda, .place = threads.rank()};
    device::DeviceContext context(place);
    const auto world = make_device_group(threads, context, options);
    body({world ? *world : threads, context, place});
  };
  with_ranks(n, on_rank, {.node_of_rank = std::move(node_of_rank)});
}

}  // namespace hexad::comm
