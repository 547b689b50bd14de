#include "framework/telemetry/trace.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

nlohmann::json read_trace(const std::filesystem::path& path) {
  EXPECT_EQ(contents(path).substr(0, 2), "\x1f\x8b") << "the file must be a gzip file";
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text(1 << 20, '\0');
  text.resize(std::max(gzread(file, text.data(), static_cast<unsigned>(text.size())), 0));
  gzclose(file);
  return nlohmann::json::parse(text);
}

TEST(Trace, RanksAreProcessesAndLanesAreThreads) {
  const TemporaryFolder folder;
  const std::vector<TraceEvent> events{
      {.name = "E0", .lane = "compute", .rank = 0, .start_us = 10, .duration_us = 5.5},
      {.name = "D1",
       .lane = "inter",
       .rank = 0,
       .start_us = 11,
       .duration_us = 3,
       .args = {{"bytes", int64_t{1} << 33}, {"kind", "a2a"}, {"share", 0.5}}},
      {.name = "E0", .lane = "inter", .rank = 1, .start_us = 10.25, .duration_us = 5},
  };
  write_trace(folder / "trace.json.gz", {events, {}});
  const auto trace = read_trace(folder / "trace.json.gz")["traceEvents"];
  std::vector<nlohmann::json> slices;
  std::map<std::string, int> metadata;
  for (const auto& e : trace) {
    if (e["ph"] == "X") slices.push_back(e);
    if (e["ph"] == "M") metadata[e["name"].get<std::string>() + "/" + e["args"].dump()]++;
  }
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["pid"], 0);
  EXPECT_EQ(slices[0]["ts"], 10);
  EXPECT_EQ(slices[0]["dur"], 5.5);
  EXPECT_NE(slices[0]["tid"], slices[1]["tid"]) << "each lane of a rank has its own row";
  EXPECT_EQ(slices[1]["args"]["bytes"], int64_t{1} << 33);
  EXPECT_EQ(slices[1]["args"]["kind"], "a2a");
  EXPECT_EQ(slices[2]["pid"], 1);
  EXPECT_EQ(metadata[R"(process_name/{"name":"rank 1"})"], 1);
  EXPECT_EQ(metadata[R"(thread_name/{"name":"inter"})"], 2);
}

TEST(Trace, AmountsAreCounterEvents) {
  const TemporaryFolder folder;
  write_trace(folder / "t.json.gz",
              {{}, {{.name = "memory", .rank = 1, .time_us = 2.5, .values = {{"activation", 7}, {"weight", 9}}}}});
  const auto trace = read_trace(folder / "t.json.gz")["traceEvents"];
  std::vector<nlohmann::json> counters;
  for (const auto& e : trace)
    if (e["ph"] != "M") counters.push_back(e);
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]["ph"], "C");
  EXPECT_EQ(counters[0]["pid"], 1);
  EXPECT_EQ(counters[0]["ts"], 2.5);
  EXPECT_EQ(counters[0]["args"]["activation"], 7);
  EXPECT_EQ(counters[0]["args"]["weight"], 9);
}

TEST(Trace, RanksWithCountersAloneAreNamedOnce) {
  const TemporaryFolder folder;
  write_trace(folder / "t.json.gz", {{{.name = "x", .lane = "ep", .rank = 0}},
                                     {{.name = "memory", .rank = 0, .values = {{"weight", 9}}},
                                      {.name = "memory", .rank = 2, .values = {{"weight", 9}}},
                                      {.name = "memory", .rank = 2, .time_us = 1, .values = {{"weight", 8}}}}});
  std::vector<std::pair<int, std::string>> names;
  const auto trace = read_trace(folder / "t.json.gz");
  for (const auto& e : trace["traceEvents"])
    if (e["name"] == "process_name") names.emplace_back(e["pid"], e["args"]["name"]);
  EXPECT_EQ(names, (std::vector<std::pair<int, std::string>>{{0, "rank 0"}, {2, "rank 2"}}));
}

TEST(Trace, SourcesAreSeparateProcesses) {
  const TemporaryFolder folder;
  const TraceRecords predicted{{{.name = "x", .lane = "ep", .rank = 0}}, {}};
  const TraceRecords measured{{{.name = "x", .lane = "ep", .rank = 0}, {.name = "x", .lane = "ep", .rank = 1}},
                              {{.name = "memory", .rank = 1, .values = {{"weight", 9}}}}};
  write_traces(folder / "t.json.gz", {{"predicted", predicted}, {"measured", measured}});
  std::map<int, std::string> names;
  std::vector<int> slices, counters;
  const auto trace = read_trace(folder / "t.json.gz");
  for (const auto& e : trace["traceEvents"]) {
    if (e["name"] == "process_name") names[e["pid"]] = e["args"]["name"];
    if (e["ph"] == "X") slices.push_back(e["pid"]);
    if (e["ph"] == "C") counters.push_back(e["pid"]);
  }
  EXPECT_EQ(names,
            (std::map<int, std::string>{{0, "predicted rank 0"}, {1, "measured rank 0"}, {3, "measured rank 1"}}));
  EXPECT_EQ(slices, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(counters, std::vector<int>{3});
}

TEST(Trace, NamesTheNodesOfRanksOnSeveralNodes) {
  const TemporaryFolder folder;
  const TraceRecords records{{{.name = "x", .lane = "ep", .rank = 0}, {.name = "x", .lane = "ep", .rank = 2}}, {}};
  const auto names = [&](const std::vector<TraceSource>& sources) {
    write_traces(folder / "t.json.gz", sources);
    std::vector<std::string> all;
    const auto trace = read_trace(folder / "t.json.gz");
    for (const auto& e : trace["traceEvents"])
      if (e["name"] == "process_name") all.push_back(e["args"]["name"]);
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({{"predicted", records, {0, 0, 1, 1}}}),
            (Names{"predicted rank 0 on node 0", "predicted rank 2 on node 1"}));
  EXPECT_EQ(names({{"", records, {0, 0, 1, 1}}}), (Names{"rank 0 on node 0", "rank 2 on node 1"}));
  EXPECT_EQ(names({{"", records, {0, 0, 0, 0}}}), (Names{"rank 0", "rank 2"}));
}

TEST(Trace, ReadsBackAsWritten) {
  const TemporaryFolder folder;
  const TraceRecords written{{{.name = "D1",
                               .lane = "ep (intra)",
                               .rank = 3,
                               .start_us = 1.0 / 3,
                               .duration_us = 1e9 + 0.1,
                               .args = {{"bytes", int64_t{1} << 33}, {"kind", "a2a"}, {"share", 0.5}}},
                              {.name = "step 1", .lane = "host", .rank = 0}},
                             {{.name = "memory", .rank = 1, .time_us = 2.5, .values = {{"activation", 7}}}}};
  write_trace(folder / "t.json.gz", written);
  const TraceRecords read = load_trace(folder / "t.json.gz");
  ASSERT_EQ(read.events.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.events[i].name, written.events[i].name);
    EXPECT_EQ(read.events[i].lane, written.events[i].lane);
    EXPECT_EQ(read.events[i].rank, written.events[i].rank);
    EXPECT_EQ(read.events[i].start_us, written.events[i].start_us);
    EXPECT_EQ(read.events[i].duration_us, written.events[i].duration_us);
    EXPECT_EQ(read.events[i].args, written.events[i].args);
  }
  ASSERT_EQ(read.counters.size(), 1u);
  EXPECT_EQ(read.counters[0].rank, 1);
  EXPECT_EQ(read.counters[0].time_us, 2.5);
  EXPECT_EQ(read.counters[0].values, written.counters[0].values);
}

TEST(Trace, MissingOrDamagedFileIsNamed) {
  const TemporaryFolder folder;
  write_text(folder / "t.json.gz", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"x\"");
  for (const char* name : {"t.json.gz", "none.json.gz"}) {
    try {
      load_trace(folder / name);
      FAIL() << "no error was thrown for " << name;
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::data);
      EXPECT_EQ(std::string(e.what()).find((folder / name).string() + ": cannot be "), 0u) << e.what();
    }
  }
}

TEST(Trace, PartialOverlapsGetSeparateLanes) {
  const auto at = [](double begin, double end, int rank = 0) {
    return TraceEvent{.name = "x", .lane = "host", .rank = rank, .start_us = begin, .duration_us = end - begin};
  };
  // The events, in this order:
  // - an outer event, an event inside it, and an event that overlaps the outer event
  // - an event inside the third event
  // - an event after the outer event, and an event after all others
  // - an event of another rank
  std::vector<TraceEvent> events{at(0, 10), at(2, 5), at(4, 12), at(6, 12), at(11, 13), at(13, 14), at(4, 12, 1)};
  separate_overlaps(events, " (other)");
  std::vector<std::string> lanes;
  for (const TraceEvent& e : events) lanes.push_back(e.lane);
  EXPECT_EQ(lanes, (std::vector<std::string>{"host", "host", "host (other)", "host (other)", "host", "host", "host"}));

  std::vector<TraceEvent> three{at(0, 10), at(1, 11), at(2, 12)};
  separate_overlaps(three, " (other)");
  EXPECT_EQ(three[2].lane, "host (other) 2");
}

TEST(Trace, EmptyTraceIsValid) {
  const TemporaryFolder folder;
  write_trace(folder / "t.json.gz", {});
  EXPECT_TRUE(read_trace(folder / "t.json.gz")["traceEvents"].empty());
}

TEST(Trace, UnwritablePathAndAFullDiskAreNamed) {
  const std::vector<TraceEvent> events{{.name = "x", .lane = "compute"}};
  for (const auto& [path, reason] : {std::pair("/nowhere/trace.json.gz", "No such file or directory"),
                                     std::pair("/dev/full", "No space left on device")}) {
    try {
      write_trace(path, {events, {}});
      FAIL() << "no error was thrown for " << path;
    } catch (const base::Error& e) {
      EXPECT_EQ(e.what(), base::cat("cannot write the trace ", path, ": ", reason));
    }
  }
}

}  // namespace
}  // namespace hexad::telemetry
