// Timelines for ui.perfetto.dev or chrome://tracing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// Amounts at one time, drawn as layers on top of each other.
struct TraceCounter {
  std::string name;  // "memory": one row a rank and name
  int rank = 0;
  double time_us = 0;
  std::map<std::string, int64_t> values = {};
};

struct TraceRecords {
  std::vector<TraceEvent> events;
  std::vector<TraceCounter> counters;
};

/// Rows show an event inside another one, but not two that only overlap: of these the later one gets a lane of its own,
/// called as the lane and `mark`, then, where there are more, a number.
void separate_overlaps(std::vector<TraceEvent>& events, std::string_view mark);

/// Writes Chrome's JSON trace format, gzip-compressed, to `path` (".json.gz"); ranks become processes, lanes threads in
/// the order of their first event. Throws base::Error(resource).
void write_trace(const std::filesystem::path& path, const TraceRecords& records);

}  // namespace hexad::telemetry
