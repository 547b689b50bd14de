// Traces in the format of ui.perfetto.dev and chrome://tracing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hexad::telemetry {

/// A time span on one lane of one rank.
struct TraceEvent {
  std::string name;
  std::string lane = {};  // lane, such as "compute" or "inter"; each rank and lane has a row
  int rank = 0;
  double start_us = 0;  // microseconds on a clock that all ranks share
  double duration_us = 0;
  std::map<std::string, std::variant<int64_t, double, std::string>> args = {};  // properties, shown when the event is
                                                                                // selected
};

/// Amounts at one point in time, drawn as stacked areas.
struct TraceCounter {
  std::string name;  // name, such as "memory"; each rank and name has a row
  int rank = 0;
  double time_us = 0;
  std::map<std::string, int64_t> values = {};
};

struct TraceRecords {
  std::vector<TraceEvent> events;
  std::vector<TraceCounter> counters;
};

/// Moves partly overlapping events to other lanes. A row can show an event inside another event, but not two events
/// that overlap partly. The name of the later event's new lane is the name of its old lane followed by `mark`. For a
/// second new lane of the same old lane, " 2" follows `mark`, for a third " 3", and so on.
void separate_overlaps(std::vector<TraceEvent>& events, std::string_view mark);

/// Writes a gzip-compressed file in Chrome's JSON trace format to `path` (".json.gz"). In the file, a rank is a
/// process, and a lane is a thread. Lanes are in the order of their first events. Throws base::Error(resource) if
/// writing fails.
void write_trace(const std::filesystem::path& path, const TraceRecords& records);

/// Records of one source. `name` is "predicted", "measured", ..., or empty for the only source.
struct TraceSource {
  std::string name;
  TraceRecords records;
  std::vector<int> node_of_rank = {};  // node of each rank; empty: unknown
};

/// Returns the name of a rank: "rank 8", or "rank 8 on node 1" if `node_of_rank` has several nodes. `node_of_rank` is
/// as in TraceSource.
std::string rank_name(int rank, std::span<const int> node_of_rank);

/// Writes several sources to one file, like write_trace(). A process is one rank of one source, such as "predicted rank
/// 0". Its name ends in rank_name(). Processes are sorted by rank, then by source.
void write_traces(const std::filesystem::path& path, const std::vector<TraceSource>& sources);

/// Reads a file that write_trace() has written. Throws base::Error(data) if it is missing or damaged.
TraceRecords load_trace(const std::filesystem::path& path);

}  // namespace hexad::telemetry
