// Groups whose collectives transfer tensors directly between devices.
#pragma once

#include <array>
#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::comm {

using base::Error;

/// Path by which device tensors are sent between ranks:
/// - automatic: NCCL if possible; otherwise the world's transport if it accepts card memory; otherwise host memory
/// - nccl: only NCCL
/// - host: only host memory
enum class DeviceCollectives : uint8_t { automatic, nccl, host };
constexpr auto enum_names(DeviceCollectives) {
  using enum DeviceCollectives;
  return std::to_array<std::pair<DeviceCollectives, std::string_view>>(
      {{automatic, "auto"}, {nccl, "nccl"}, {host, "host"}});
}

/// Kernel that adds `addends` in order and writes the sum to `out` (KernelTable::pointwise.sum_of).
using SumInOrder = void (*)(Stream&, const Tensor& out, std::span<const Tensor> addends);

/// Traffic of one class that is in flight while matrix products are computed.
struct TrafficBeside {
  TrafficClass traffic;
  bool messages = false;  // true: messages between two ranks; false: collectives
  int operations = 1;     // number of operations in flight at the same time
  bool operator==(const TrafficBeside&) const = default;
};

/// Traffic of one group of a rank. It may be in flight together with the traffic of the rank's other groups.
struct GroupTraffic {
  TrafficClass traffic;
  Urgency urgency = Urgency::ordinary;
  bool across_nodes = false;  // true if the group uses links between nodes
  int channels = 0;           // 0: collectives; otherwise, messages on this number of channels to and from this rank
  auto operator<=>(const GroupTraffic&) const = default;
};

struct DeviceGroupOptions {
  DeviceCollectives collectives = DeviceCollectives::automatic;
  Priorities priorities{};
  double watchdog_seconds = 300;  // seconds without progress until an operation counts as hung; 0: never
  /// Maximum size of a transfer in bytes. Longer transfers are divided into pieces, so that transfers of other classes
  /// can run between the pieces. Under NCCL, all_gather is divided only if it uses the connections of exchanges
  /// (use_over_nccl()), and reduce_scatter is divided only with sum_of.
  int64_t piece_bytes = 32 << 20;
  /// True if buffers are registered with NCCL. Large parameters and gradients then occupy whole blocks if they are
  /// allocated after the nccl::CardRank is made. NCCL reads and writes whole blocks without copying if links and
  /// algorithms permit (nccl/registered.h).
  bool register_buffers = false;
  /// Kernel that sums in the order of the ranks. Results are then bitwise identical in every run and for every kind of
  /// group. NCCL computes the sums if sum_of is null. The order of the addends then depends on NCCL's version, on the
  /// cards and on the links between the cards.
  SumInOrder sum_of = nullptr;
  /// Network class of each traffic class (InfiniBand: service level; RoCE: type of service).
  std::array<std::optional<int>, traffic_class_count> network_class{};
  /// Traffic for which matrix products leave multiprocessors free if NCCL is used. A product that is launched on all
  /// multiprocessors would wait for the multiprocessors that NCCL occupies, and could take twice as long.
  std::vector<TrafficBeside> beside_products{};
  /// Traffic of all groups that this rank will split from the new group. Each NCCL operation gets so few thread blocks
  /// that the blocks of all this traffic together fit on the card of every rank. Operations get their usual numbers of
  /// blocks if the list is empty.
  std::vector<GroupTraffic> groups{};
  /// Called on rank 0 with a text that states the path between cards, and the reason if the path is not NCCL. Not
  /// called if there is only one rank, if the device is not a card, or if the options require host memory.
  std::function<void(const std::string&)> info{};
  /// Called on rank 0 with a warning if the environment variable NCCL_LAUNCH_ORDER_IMPLICIT may cause a deadlock
  /// between ranks.
  std::function<void(const std::string&)> warn{};
  /// Ends the job if NCCL fails or hangs. Called on a separate thread. Without this function, the message is printed
  /// and ProcessGroup::abort_job() is called.
  std::function<void(const Error&)> on_failure{};
};

/// Makes a group of all ranks of `world` for tensors on the device of `context`. The groups split from this group also
/// accept these tensors. The group uses NCCL if each rank has its own card and all ranks can load NCCL. Otherwise, the
/// group uses the transport of `world` if this transport accepts card memory. Returns null on all ranks
/// - if neither path is possible,
/// - if the options require host memory,
/// - if there is only one rank, or
/// - if the device is not a card.
/// Throws Error if the options require NCCL, there are several ranks, and NCCL cannot be used. Collective. `world` and
/// `context` must outlive the groups.
std::unique_ptr<ProcessGroup> make_device_group(const ProcessGroup& world, device::DeviceContext& context,
                                                const DeviceGroupOptions& options);

/// Number of one rank's communicators, and the bytes of card memory that they occupy.
struct ConnectionMemory {
  int communicators = 0;
  int64_t bytes = 0;
};
/// Returns the memory of `cards`, a group made by make_device_group(), and of all groups that were split from it.
/// Returns nullopt if `cards` does not use NCCL.
std::optional<ConnectionMemory> connection_memory(const ProcessGroup& cards);

}  // namespace hexad::comm
