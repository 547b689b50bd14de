// Classes of traffic, by purpose.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::comm {

/// Classes of traffic, in descending order of default priority. Each class has a priority, and statistics in
/// metrics.jsonl.
enum class TrafficClass : uint8_t { control, tp, ep, pp, cp, dp };
inline constexpr int traffic_class_count = 6;
std::string_view name_of(TrafficClass traffic);
/// Returns the classes whose priority a recipe may choose, with their names. Omits control traffic.
constexpr auto enum_names(TrafficClass) {
  using enum TrafficClass;
  return std::to_array<std::pair<TrafficClass, std::string_view>>(
      {{tp, "tp"}, {ep, "ep"}, {pp, "pp"}, {cp, "cp"}, {dp, "dp"}});
}

}  // namespace hexad::comm
