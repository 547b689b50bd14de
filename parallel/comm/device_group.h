// Groups whose collectives on tensors of a device go from device to device.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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

/// KernelTable's pointwise.sum_of.
using SumInOrder = void (*)(Stream&, const Tensor& out, std::span<const Tensor> addends);

struct DeviceGroupOptions {
  DeviceCollectives collectives = DeviceCollectives::automatic;
  Priorities priorities{};
  double watchdog_seconds = 300;  // as Guards::watchdog_seconds
  /// Longer transfers are cut, so that another class's gets in between.
  int64_t piece_bytes = 32 << 20;
  /// Large parameters and gradients whose tensors are made after this become whole blocks, which NCCL may read and
  /// write without copies of its own (nccl/registered.h).
  bool register_buffers = false;
  /// Sums in rank order by this kernel, the same bits as other groups' and every time; null: NCCL's own order, which
  /// depends on its version, on the cards and their links.
  SumInOrder sum_of = nullptr;
  /// Name of each class in the network (InfiniBand: service level, RoCE: type of service).
  std::array<std::optional<int>, traffic_class_count> network_class{};
  /// Called once, on rank 0, with the way that was taken and why.
  std::function<void(const std::string&)> say{};
  /// Ends the job when NCCL fails or hangs, on a thread of its own; empty: the message is printed and
  /// ProcessGroup::abort_job called.
  std::function<void(const Error&)> on_failure{};
};

/// All ranks of `world` once more, as a group that takes tensors of `context`'s device, and so do the groups split from
/// it: by NCCL, or where that cannot be had (ranks share a card, or it is missing) by `world`'s transport, if it takes
/// memory of cards. Null on all ranks alike where tensors pass through host memory: they are told to, neither takes
/// them, there is one rank, or the device is no card. Collective; `world` and `context` outlive the groups, which have
/// their tensors' contexts' card. Throws where `nccl` is asked for and cannot be had.
std::unique_ptr<ProcessGroup> make_device_group(const ProcessGroup& world, device::DeviceContext& context,
                                                const DeviceGroupOptions& options);

}  // namespace hexad::comm
