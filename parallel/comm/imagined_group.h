// A group for a single process that runs as one of many ranks. Used by runs that only count memory and operations
// (framework/device/meta).
#pragma once

#include "framework/device/meta/issue_log.h"
#include "parallel/comm/connection_bytes.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Description of the cards of imagined ranks, which are assumed to communicate through NCCL.
struct ImaginedCards {
  std::vector<int> node_of_rank;  // node of each rank of the world
  bool sums_in_order = false;     // true if real groups would set DeviceGroupOptions::sum_of
};

/// Time at which imagined ranks take part in a collective.
/// - late: when a thread of this rank waits for the collective. This rank then needs the most memory.
/// - prompt: at once. This rank then needs the least memory.
enum class ImaginedPeers : uint8_t { late, prompt };

/// Group in which all ranks but one are imagined. Each imagined rank is assumed to do the same as this rank at the same
/// time. It has the same values and chooses the same experts. In host memory:
/// - An all-gather repeats the values of this rank for each rank.
/// - An all-to-all receives, from each rank, the message that this rank sends to itself.
/// - A sum multiplies this rank's values by the number of ranks.
/// - A maximum, a minimum and a broadcast keep this rank's values.
/// - A reduce-scatter and a receive throw std::logic_error.
/// On the meta device, an all-gather copies known values, a broadcast keeps the values, and all other results are
/// marked as unknown.
///
/// Operations never wait. Without cards and with late peers, a collective of several ranks holds its tensors until a
/// thread waits for the collective; a real collective cannot hold them longer. In all other cases, operations hold no
/// tensors. Operations of an NcclGroup hold none, either. Bytes are counted as in real groups (Operation::wire_bytes).
/// The device's allocator also counts the memory that NCCL would need to connect the ranks (connection_bytes.h). With
/// DeviceGroupOptions::groups, real groups may need less memory than this count if there are many groups.
class ImaginedGroup final : public ProcessGroup {
 public:
  /// Makes the world of rank `rank` among `size` ranks. Operations of this group and of its subgroups are recorded in
  /// `log`, which may be null and must outlive the groups. node_of_rank is as in ProcessGroup; an empty list means that
  /// all ranks are on one node. Connections need no device memory if `cards` is null.
  ImaginedGroup(int rank, int size, device::IssueLog* log = nullptr, std::vector<int> node_of_rank = {},
                std::shared_ptr<const ImaginedCards> cards = {}, ImaginedPeers peers = ImaginedPeers::late);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  /// Returns true: the imagined ranks are assumed to be able to access each other's memory.
  bool in_one_process() const override { return true; }
  bool runs_on_devices() const override { return cards_ != nullptr; }
  /// Throws std::logic_error, because the colours of the other ranks are unknown. Use subgroup(), which names the
  /// members.
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> duplicate(std::string name) const override;
  void connect(Uses uses, Device device) const override;
  void connect_routes(std::span<const Route> routes, Device device) const override;
  std::unique_ptr<WindowMemory> window_memory() const override { return nullptr; }

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode) const override {}
  bool takes_device_tensors() const override { return true; }

 private:
  ImaginedGroup(int rank, std::vector<int> ranks, TrafficClass traffic, std::string name, const ImaginedGroup& from);
  std::vector<int> nodes() const;
  nccl::CommunicatorShape shape() const;
  void connect_for(const Operation& op, Device device) const;
  Event record(const Operation& op, const Stream& stream) const;

  const int rank_;
  const std::vector<int> ranks_;  // world ranks of the members
  device::IssueLog* const log_;
  const int logged_as_;  // index of this group in the log; -1 without a log
  const std::shared_ptr<const ImaginedCards> cards_;
  const ImaginedPeers peers_;
  std::shared_ptr<Uses> connected_ = std::make_shared<Uses>();  // shared with the duplicates of this group
  mutable std::set<Route> routes_;                              // routes on which the ranks are connected for messages
};

}  // namespace hexad::comm
