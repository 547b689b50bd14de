#include "framework/telemetry/trace.h"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "framework/base/error.h"

namespace hexad::telemetry {

namespace {

using Json = nlohmann::ordered_json;

class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) : path_(path), file_(gzopen(path.c_str(), "wb6")) {
    if (!file_) fail();
  }
  ~GzipFile() {
    if (file_) gzclose(file_);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(const std::string& text) {
    if (gzwrite(file_, text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size())) fail();
  }
  /// Writes the last block. A full disk may be detected only here.
  void close() {
    if (gzclose(std::exchange(file_, nullptr)) != Z_OK) fail();
  }

 private:
  [[noreturn]] void fail() const { base::fail(base::ExitCode::resource, "cannot write the trace ", path_.string()); }

  std::filesystem::path path_;
  gzFile file_;
};

Json metadata(const char* what, int rank, int lane, Json args) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", std::move(args)}};
}

Json slice(const TraceEvent& e, int lane) {
  Json json{{"name", e.name}, {"cat", e.lane},    {"ph", "X"},           {"pid", e.rank},
            {"tid", lane},    {"ts", e.start_us}, {"dur", e.duration_us}};
  for (const auto& [key, value] : e.args) std::visit([&](const auto& v) { json["args"][key] = v; }, value);
  return json;
}

}  // namespace

void separate_overlaps(std::vector<TraceEvent>& events, std::string_view mark) {
  // Sorts by rank and lane, then by begin; of events with the same begin, the longest is first.
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

void write_trace(const std::filesystem::path& path, const TraceRecords& records) {
  std::map<int, std::map<std::string, int>> lanes;  // rank -> lane -> row
  std::string separator = "\n";
  GzipFile file(path);
  auto put = [&](const Json& json) {
    // Names come from code and recipes. Invalid UTF-8 in them is replaced, so that writing the trace does not fail.
    file.write(separator + json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator = ",\n";
  };
  file.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (const TraceEvent& e : records.events) {
    auto& rows = lanes[e.rank];
    if (rows.empty()) {
      put(metadata("process_name", e.rank, 0, {{"name", base::cat("rank ", e.rank)}}));
      put(metadata("process_sort_index", e.rank, 0, {{"sort_index", e.rank}}));
    }
    const auto [row, is_new] = rows.try_emplace(e.lane, static_cast<int>(rows.size()));
    if (is_new) {
      put(metadata("thread_name", e.rank, row->second, {{"name", e.lane}}));
      put(metadata("thread_sort_index", e.rank, row->second, {{"sort_index", row->second}}));
    }
    put(slice(e, row->second));
  }
  for (const TraceCounter& c : records.counters)
    put({{"name", c.name}, {"ph", "C"}, {"pid", c.rank}, {"ts", c.time_us}, {"args", c.values}});
  file.write("\n]}\n");
  file.close();
}

}  // namespace hexad::telemetry
