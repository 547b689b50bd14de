// In-order queues of a rank.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "framework/base/enum_names.h"

namespace hexad::device {

/// Queue of a rank, for traffic between nodes, for traffic inside a node, for copies, or for computation.
enum class Lane : uint8_t { inter, intra, copy, compute };
constexpr auto enum_names(Lane) {
  return std::to_array<std::pair<Lane, std::string_view>>(
      {{Lane::inter, "inter"}, {Lane::intra, "intra"}, {Lane::copy, "copy"}, {Lane::compute, "compute"}});
}
inline constexpr int lane_count = enum_names(Lane{}).size();
constexpr std::string_view name_of(Lane lane) { return base::enum_name(lane); }

}  // namespace hexad::device
