#include "framework/telemetry/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "framework/base/error.h"

namespace hexad::telemetry {

namespace {

using Json = nlohmann::ordered_json;

class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) : path_(path) {
    errno = 0;
    file_ = gzopen(path.c_str(), "wb6");
    if (!file_) fail();
  }
  ~GzipFile() {
    if (file_) gzclose(file_);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(const std::string& text) {
    errno = 0;
    if (gzwrite(file_, text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size())) fail();
  }
  /// Writes the last block. A full disk may be detected only here.
  void close() {
    errno = 0;
    if (gzclose(std::exchange(file_, nullptr)) != Z_OK) fail();
  }

 private:
  // Reports the system's reason, if there is one: zlib does not set errno if it fails for lack of memory.
  [[noreturn]] void fail() const {
    const std::string reason = errno != 0 ? base::cat(": ", std::strerror(errno)) : std::string();
    base::fail(base::ExitCode::resource, "cannot write the trace ", path_.string(), reason);
  }

  std::filesystem::path path_;
  gzFile file_ = nullptr;
};

Json metadata(const char* what, int process, int row, Json args) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", row}, {"args", std::move(args)}};
}

Json slice(const TraceEvent& e, int process, int row) {
  Json json{{"name", e.name}, {"cat", e.lane},    {"ph", "X"},           {"pid", process},
            {"tid", row},     {"ts", e.start_us}, {"dur", e.duration_us}};
  for (const auto& [key, value] : e.args) std::visit([&](const auto& v) { json["args"][key] = v; }, value);
  return json;
}

class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path) : file_(path) {
    file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  }

  /// Processes of one source: source number `source` (from 0) of the file's `sources` sources.
  struct Processes {
    std::string_view name;
    std::span<const int> node_of_rank;
    int source = 0, sources = 1;
  };
  void add(const TraceRecords& records, const Processes& processes) {
    std::map<int, std::map<std::string, int>> lanes;  // row of each lane, by rank and lane
    const auto process_of = [&](int rank) { return rank * processes.sources + processes.source; };
    // Names the process of a rank at its first event or counter. Returns the rows of the rank.
    const auto rows_of = [&](int rank) -> std::map<std::string, int>& {
      const auto [at, is_new] = lanes.try_emplace(rank);
      if (is_new) {
        const int process = process_of(rank);
        const std::string called =
            base::cat(processes.name, processes.name.empty() ? "" : " ", rank_name(rank, processes.node_of_rank));
        put(metadata("process_name", process, 0, {{"name", called}}));
        put(metadata("process_sort_index", process, 0, {{"sort_index", process}}));
      }
      return at->second;
    };
    for (const TraceEvent& e : records.events) {
      const int process = process_of(e.rank);
      auto& rows = rows_of(e.rank);
      const auto [row, is_new] = rows.try_emplace(e.lane, static_cast<int>(rows.size()));
      if (is_new) {
        put(metadata("thread_name", process, row->second, {{"name", e.lane}}));
        put(metadata("thread_sort_index", process, row->second, {{"sort_index", row->second}}));
      }
      put(slice(e, process, row->second));
    }
    for (const TraceCounter& c : records.counters) {
      rows_of(c.rank);
      put({{"name", c.name}, {"ph", "C"}, {"pid", process_of(c.rank)}, {"ts", c.time_us}, {"args", c.values}});
    }
  }
  void close() {
    file_.write("\n]}\n");
    file_.close();
  }

 private:
  // Names come from code and recipes. Invalid UTF-8 is replaced, because JSON cannot contain it.
  void put(const Json& json) {
    file_.write(separator_ + json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator_ = ",\n";
  }

  GzipFile file_;
  std::string separator_ = "\n";
};

std::string unzipped(const std::filesystem::path& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file)
    base::fail(base::ExitCode::data, path.string(), ": cannot be opened",
               errno != 0 ? base::cat(": ", std::strerror(errno)) : std::string(), ", expected a trace");
  std::string text, part(size_t{1} << 16, '\0');
  int count = 0;
  while ((count = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0) text.append(part, 0, count);
  gzclose(file);
  if (count < 0) base::fail(base::ExitCode::data, path.string(), ": is damaged, expected a gzip-compressed trace");
  return text;
}

TraceEvent parsed_event(const Json& from, std::string lane) {
  TraceEvent e{.name = from.at("name").get<std::string>(),
               .lane = std::move(lane),
               .rank = from.at("pid").get<int>(),
               .start_us = from.at("ts").get<double>(),
               .duration_us = from.at("dur").get<double>()};
  if (!from.contains("args")) return e;
  for (const auto& [key, value] : from.at("args").items()) {
    if (value.is_string())
      e.args[key] = value.get<std::string>();
    else if (value.is_number_float())
      e.args[key] = value.get<double>();
    else
      e.args[key] = value.get<int64_t>();
  }
  return e;
}

}  // namespace

void separate_overlaps(std::vector<TraceEvent>& events, std::string_view mark) {
  // Sorts by rank and lane, then by start. If several events start at the same time, the longest is first.
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const TraceEvent& e = events[i];
    return std::tuple(e.rank, std::string_view(e.lane), e.start_us, -e.duration_us);
  });
  using Ends = std::vector<double>;  // ends of the open events, each of which is inside the previous one
  std::map<std::pair<int, std::string>, std::vector<Ends>> lanes;  // the rows of each lane
  for (const size_t i : order) {
    TraceEvent& e = events[i];
    auto& rows = lanes[{e.rank, e.lane}];
    const auto fits = [&](Ends& open) {
      while (!open.empty() && open.back() <= e.start_us) open.pop_back();
      return open.empty() || e.start_us + e.duration_us <= open.back();
    };
    auto row = std::ranges::find_if(rows, fits);
    if (row == rows.end()) row = rows.emplace(rows.end());
    row->push_back(e.start_us + e.duration_us);
    const auto number = row - rows.begin();
    if (number > 0) e.lane += mark;
    if (number > 1) e.lane += base::cat(" ", number);
  }
}

std::string rank_name(int rank, std::span<const int> node_of_rank) {
  const bool several = std::ranges::any_of(node_of_rank, [&](int node) { return node != node_of_rank.front(); });
  return several ? base::cat("rank ", rank, " on node ", node_of_rank[rank]) : base::cat("rank ", rank);
}

void write_trace(const std::filesystem::path& path, const TraceRecords& records) {
  TraceFile file(path);
  file.add(records, {});
  file.close();
}

void write_traces(const std::filesystem::path& path, const std::vector<TraceSource>& sources) {
  TraceFile file(path);
  const auto count = static_cast<int>(sources.size());
  for (int s = 0; s < count; ++s)
    file.add(sources[s].records,
             {.name = sources[s].name, .node_of_rank = sources[s].node_of_rank, .source = s, .sources = count});
  file.close();
}

TraceRecords load_trace(const std::filesystem::path& path) try {
  const Json trace = Json::parse(unzipped(path));
  TraceRecords records;
  std::map<std::pair<int, int>, std::string> lanes;  // names of the lanes, by process and row
  for (const Json& e : trace.at("traceEvents")) {
    const auto phase = e.at("ph").get<std::string>();
    if (phase == "M" && e.at("name") == "thread_name")
      lanes[{e.at("pid"), e.at("tid")}] = e.at("args").at("name").get<std::string>();
    else if (phase == "X")
      records.events.push_back(parsed_event(e, lanes.at({e.at("pid"), e.at("tid")})));
    else if (phase == "C")
      records.counters.push_back({.name = e.at("name").get<std::string>(),
                                  .rank = e.at("pid").get<int>(),
                                  .time_us = e.at("ts").get<double>(),
                                  .values = e.at("args").get<std::map<std::string, int64_t>>()});
  }
  return records;
} catch (const nlohmann::json::exception& e) {
  base::fail(base::ExitCode::data, path.string(), ": cannot be read as a trace (", e.what(),
             "); expected a trace of Hexad");
} catch (const std::out_of_range&) {
  base::fail(
      base::ExitCode::data, path.string(),
      ": cannot be read as a trace, because an event's thread has no name; expected a thread_name event before it");
}

}  // namespace hexad::telemetry
