// Kinds of device on which a rank can compute.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::device {

/// Kind of device:
/// - cpu: kernels run on the calling thread and its helper threads.
/// - cuda: kernels are queued on an NVIDIA card, whose memory the host cannot access.
/// - emulated: computes like `cpu`, but queues kernels and hides its memory like `cuda`. It reveals errors of GPU
///   code on machines without a GPU.
/// - meta: tensors have shapes but no memory, only routing is computed, and the allocator counts bytes. Not available
///   in recipes.
enum class DeviceKind : uint8_t { cpu, cuda, emulated, meta };
/// Returns the kinds that a recipe may choose, with their names.
constexpr auto enum_names(DeviceKind) {
  return std::to_array<std::pair<DeviceKind, std::string_view>>(
      {{DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}, {DeviceKind::emulated, "emulated"}});
}
std::string_view name_of(DeviceKind kind);

}  // namespace hexad::device
