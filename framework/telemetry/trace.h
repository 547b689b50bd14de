// Timelines for ui.perfetto.dev or chrome://tracing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <variant>

namespace hexad::telemetry {

/// Something that took a while on one lane of one rank.
struct TraceEvent {
  std::string name;
  std::string lane = {};  // "compute", "inter", ...: one row a rank and lane
  int rank = 0;
  double start_us = 0;  // on a clock common to the ranks
  double duration_us = 0;
  std::map<std::string, std::variant<int64_t, double, std::string>> args = {};  // shown when the event is selected
};

/// Writes Chrome's JSON trace format, gzip-compressed, to `path` (".json.gz"); ranks become processes, lanes threads in
/// the order of their first event. Throws base::Error(resource).
void write_trace(const std::filesystem::path& path, std::span<const TraceEvent> events);

}  // namespace hexad::telemetry
