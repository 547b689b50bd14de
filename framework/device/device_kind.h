// The kinds of device that a rank can compute on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::device {

/// `cpu` runs kernels where they are called; `cuda` queues them on the device, whose memory the host cannot read.
/// `emulated` computes as `cpu` does but behaves as `cuda` does: for finding without a GPU what a GPU would punish.
/// `meta` computes nothing and has no memory: tensors have shapes, the allocator counts. No recipe can ask for it.
enum class DeviceKind : uint8_t { cpu, cuda, emulated, meta };
/// Names of the kinds that a recipe may choose.
constexpr auto enum_names(DeviceKind) {
  return std::to_array<std::pair<DeviceKind, std::string_view>>(
      {{DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}, {DeviceKind::emulated, "emulated"}});
}
std::string_view name_of(DeviceKind kind);

}  // namespace hexad::device
