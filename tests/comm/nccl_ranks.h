// Ranks that are threads of one process, each with a device of the CUDA test double. Their groups use the NCCL test
// double.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "parallel/comm/device_group.h"

namespace hexad::comm {

/// Failures that the groups on NCCL reported through DeviceGroupOptions::on_failure.
class Failures {
 public:
  void add(const Error& e);
  /// Waits for a failure of `rank`, or of any rank if `rank` is empty. Returns false if none is reported within 20 s.
  bool wait(std::optional<int> rank = {});
  /// Returns all failures so far.
  std::vector<Error> all();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> failures_;
};

/// Objects of a rank: the context and location of its device, and the group `world`, which accepts tensors of this
/// device.
struct CardWorld {
  const ProcessGroup& world;
  device::DeviceContext& context;
  device::ContextOptions place;
};

/// Runs `body` on `n` ranks, each with its own device. A failure of NCCL fails the test if `failures` is null.
/// `node_of_rank` has the node of each rank. All ranks are on one node if `node_of_rank` is empty.
void with_cards(int n, const std::function<void(const CardWorld&)>& body, DeviceGroupOptions options = {},
                Failures* failures = nullptr, std::vector<int> node_of_rank = {});

}  // namespace hexad::comm
