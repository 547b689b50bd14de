// Traces for ui.perfetto.dev or chrome://tracing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hexad::telemetry {

/// A time span on one lane of one rank.
struct TraceEvent {
  std::string name;
  std::string lane = {};  // "compute", "inter", ...: one row per rank and lane
  int rank = 0;
  double start_us = 0;  // on a clock common to the ranks
  double duration_us = 0;
  std::map<std::string, std::variant<int64_t, double, std::string>> args = {};  // shown when the event is selected
};

/// Amounts at one time, drawn as stacked layers.
struct TraceCounter {
  std::string name;  // "memory": one row per rank and name
  int rank = 0;
  double time_us = 0;
  std::map<std::string, int64_t> values = {};
};

struct TraceRecords {
  std::vector<TraceEvent> events;
  std::vector<TraceCounter> counters;
};

/// Moves overlapping events to separate lanes, because a row can show an event inside another one, but not two that
/// partly overlap. The later event gets another lane, named after the lane and `mark`, followed by a number if there
/// are several.
void separate_overlaps(std::vector<TraceEvent>& events, std::string_view mark);

/// Writes Chrome's JSON trace format, gzip-compressed, to `path` (".json.gz"). Ranks become processes, and lanes become
/// threads in the order of their first event. Throws base::Error(resource).
void write_trace(const std::filesystem::path& path, const TraceRecords& records);

/// Records of one origin. `name` is "predicted", "measured", ...
struct TraceSource {
  std::string name;
  TraceRecords records;
};

/// Like write_trace(), for several sources in one file. A process is one rank of one source, "predicted rank 0", and
/// follows the same rank of the source before.
void write_traces(const std::filesystem::path& path, const std::vector<TraceSource>& sources);

/// Reads a file that write_trace() has written. Throws base::Error(data) if it is missing or damaged.
TraceRecords load_trace(const std::filesystem::path& path);

}  // namespace hexad::telemetry
