// Ranks that are threads of one process with a device of the CUDA double each, and the groups that NCCL's double makes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "parallel/comm/device_group.h"

namespace hexad::comm {

/// Failures that Watch found on the ranks.
class Failures {
 public:
  void add(const Error& e);
  /// Waits for one of rank `rank`, or of any; false: there was none for 20 s.
  bool wait(std::optional<int> rank = {});
  /// All so far.
  std::vector<Error> all();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> failures_;
};

/// Runs `body` as `n` ranks whose `world` takes tensors of their devices, of which each has one at `place`. Without
/// `failures` a failure of NCCL fails the test.
struct CardWorld {
  const ProcessGroup& world;
  device::DeviceContext& context;
  device::ContextOptions place;
};
void with_cards(int n, const std::function<void(const CardWorld&)>& body, DeviceGroupOptions options = {},
                Failures* failures = nullptr);

}  // namespace hexad::comm
