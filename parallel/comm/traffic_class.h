// Purpose of a group's traffic.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::comm {

/// Class of traffic: key of the accounts in metrics.jsonl and of priorities. The highest priority is first.
enum class TrafficClass : uint8_t { control, tp, ep, pp, cp, dp };
inline constexpr int traffic_class_count = 6;
std::string_view name_of(TrafficClass traffic);

}  // namespace hexad::comm
