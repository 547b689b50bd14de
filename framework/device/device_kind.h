// Kinds of device that a rank can compute on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::device {

/// Kind of device.
/// cpu: runs kernels on the calling thread.
/// cuda: queues kernels on the device, whose memory the host cannot read.
/// emulated: computes like `cpu` but behaves like `cuda`, to find errors in GPU code on machines without a GPU.
/// meta: computes nothing and has no memory. Tensors have shapes, and the allocator counts bytes. Recipes cannot choose
/// it.
enum class DeviceKind : uint8_t { cpu, cuda, emulated, meta };
/// Returns the names of the kinds that a recipe may choose.
constexpr auto enum_names(DeviceKind) {
  return std::to_array<std::pair<DeviceKind, std::string_view>>(
      {{DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}, {DeviceKind::emulated, "emulated"}});
}
std::string_view name_of(DeviceKind kind);

}  // namespace hexad::device
