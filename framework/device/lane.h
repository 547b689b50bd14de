// The in-order queues of a rank.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::device {

/// The in-order queues of the MoE schedules: traffic between nodes, inside a node, copies, and computation.
enum class Lane : uint8_t { inter, intra, copy, compute };
inline constexpr int lane_count = 4;
std::string_view name_of(Lane lane);

}  // namespace hexad::device
