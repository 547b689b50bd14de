// Group of one process that runs as one rank of many, for runs that only count (framework/device/meta).
#pragma once

#include "framework/device/meta/issue_log.h"
#include "parallel/comm/nccl/connection_bytes.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Cards of imagined ranks that communicate by NCCL.
struct ImaginedCards {
  std::vector<int> node_of_rank;  // by rank of the world
  bool sums_in_order = false;     // DeviceGroupOptions::sum_of is set
};

/// Group whose other ranks are imagined. Each of these does the same as this rank at the same time, and its tokens
/// choose the same experts. So this rank's values replace those of the other ranks. An all-gather repeats this rank's
/// values for each rank. An all-to-all returns the message of this rank to itself. A sum multiplies this rank's values
/// by the number of ranks. On a device, only the result of an all-gather is known. Operations wait for nothing. A
/// collective holds its tensors until a thread waits for it, which is the longest time that a real one may hold them.
/// Bytes are counted as in real groups (Operation::wire_bytes). The allocator of a tensor's device counts the memory
/// that NCCL would take there to connect the ranks (nccl/connection_bytes.h).
class ImaginedGroup final : public ProcessGroup {
 public:
  /// Makes the world of rank `rank` of `size`. Its operations and those of its subgroups are recorded in `log`, which
  /// may be null and outlives them. node_of_rank: as in ProcessGroup; empty: all ranks are on one node. Without
  /// `cards`, connections take no memory of a device.
  ImaginedGroup(int rank, int size, device::IssueLog* log = nullptr, std::vector<int> node_of_rank = {},
                std::shared_ptr<const ImaginedCards> cards = {});
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  /// Throws std::logic_error, because the other ranks' colours are unknown. If the members are known, use subgroup().
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> twin(std::string name) const override;
  void connect(Uses uses, Device device) const override;
  void connect_routes(std::span<const Route> routes, Device device) const override;

 protected:
  Event start(Operation op, Stream& stream) const override;
  bool takes_device_tensors() const override { return true; }

 private:
  ImaginedGroup(int rank, std::vector<int> ranks, TrafficClass traffic, std::string name, const ImaginedGroup& from);
  std::vector<int> nodes() const;
  nccl::CommunicatorShape shape() const;
  void connect_for(const Operation& op, Device device) const;
  Event record(const Operation& op, const Stream& stream) const;

  const int rank_;
  const std::vector<int> ranks_;  // numbers in the world
  device::IssueLog* const log_;
  const int logged_as_;  // number of this group in the log
  const std::shared_ptr<const ImaginedCards> cards_;
  std::shared_ptr<Uses> connected_ = std::make_shared<Uses>();  // uses of the communicator; twins share it
  mutable std::set<Route> routes_;                              // routes connected for messages
};

}  // namespace hexad::comm
