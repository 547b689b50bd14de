// Groups whose collectives move device tensors from device to device.
#pragma once

#include <array>
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

/// Path of device tensors between ranks.
enum class DeviceCollectives : uint8_t { automatic, nccl, host };
constexpr auto enum_names(DeviceCollectives) {
  using enum DeviceCollectives;
  return std::to_array<std::pair<DeviceCollectives, std::string_view>>(
      {{automatic, "auto"}, {nccl, "nccl"}, {host, "host"}});
}

/// Type of KernelTable's pointwise.sum_of.
using SumInOrder = void (*)(Stream&, const Tensor& out, std::span<const Tensor> addends);

/// Traffic that is in flight while products compute.
struct TrafficBeside {
  TrafficClass traffic;
  bool messages = false;
  int operations = 1;  // in flight at the same time
  bool operator==(const TrafficBeside&) const = default;
};

struct DeviceGroupOptions {
  DeviceCollectives collectives = DeviceCollectives::automatic;
  Priorities priorities{};
  double watchdog_seconds = 300;  // same meaning as in Guards
  /// Longest transfer in bytes. Longer transfers are cut, so that transfers of other classes can run between the
  /// pieces.
  int64_t piece_bytes = 32 << 20;
  /// True to register buffers. Large parameters and gradients made afterwards occupy whole blocks. NCCL may read and
  /// write these without copies of its own (nccl/registered.h).
  bool register_buffers = false;
  /// Kernel that sums in rank order. Results are then bitwise identical in every run and to those of other groups.
  /// Null: NCCL's own order, which depends on its version, the cards and their links.
  SumInOrder sum_of = nullptr;
  /// Network class for each traffic class (InfiniBand: service level, RoCE: type of service).
  std::array<std::optional<int>, traffic_class_count> network_class{};
  /// Traffic for which products leave multiprocessors free under NCCL. A product that takes all multiprocessors waits
  /// for those that traffic holds, and may take twice as long.
  std::vector<TrafficBeside> beside_products{};
  /// Called once, on rank 0, with the path chosen and the reason.
  std::function<void(const std::string&)> say{};
  /// Called on rank 0 for each setting of NCCL's environment under which ranks may wait for each other forever.
  std::function<void(const std::string&)> warn{};
  /// Ends the job if NCCL fails or hangs. Called on a separate thread. If empty, the message is printed and
  /// ProcessGroup::abort_job() is called.
  std::function<void(const Error&)> on_failure{};
};

/// Makes a group of all ranks of `world` for tensors of `context`'s device. The groups split from it also accept these
/// tensors. The group uses NCCL. If ranks share a card or NCCL is missing, the group uses the transport of `world`,
/// provided that it accepts card memory. Returns null on all ranks if tensors pass through host memory, because the
/// options say so or neither path accepts card memory. Also returns null if there is only one rank or the device is not
/// a card. Collective. `world` and `context` outlive the groups. All tensors are on the card of `context`. Throws if
/// the options require NCCL and it is not available.
std::unique_ptr<ProcessGroup> make_device_group(const ProcessGroup& world, device::DeviceContext& context,
                                                const DeviceGroupOptions& options);

/// Communicators of one rank, and the bytes of its card's memory that they take.
struct ConnectionMemory {
  int communicators = 0;
  int64_t bytes = 0;
};
/// Returns the memory of all groups split from `cards`, a group of make_device_group(). None if it does not use NCCL.
std::optional<ConnectionMemory> connection_memory(const ProcessGroup& cards);

}  // namespace hexad::comm
