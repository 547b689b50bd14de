// Trace of the steps that profile.steps selects.
#include "tools/train/report/run_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/read_trace.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using namespace verify;

namespace {

using Json = nlohmann::json;

// Trains a model with two MoE layers for `steps` steps on `ranks` ranks. Returns the trace of the selected steps.
Json trace_of_ranks(int ranks, int64_t steps, const Scratch& folder, std::vector<std::string> overrides) {
  overrides.push_back("run.dir=" + folder.path());
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(small_recipe(overrides), world);
    std::vector<std::string> said;
    const auto say = [&](const std::string& text) { said.push_back(text); };
    RunTrace trace(run.recipe, run.instance, world, say, say);
    const FixedSource source = documents_of(run.recipe);
    for (int64_t step = 1; step <= steps; ++step) {
      trace.begin_step(step);
      run.step(source);
    }
    trace.end();
    EXPECT_EQ(said.empty(), world.rank() != 0);
  });
  return read_trace(folder / "trace.json.gz").at("traceEvents");
}

// Trains four steps on two ranks that share the experts. Returns the trace of the selected steps.
Json trace_of(const Scratch& folder, std::vector<std::string> overrides) {
  overrides.push_back("parallel.ep=2");
  return trace_of_ranks(2, 4, folder, std::move(overrides));
}

// Returns the distinct names of spans, by rank and by row (thread) of the trace.
std::map<int, std::map<std::string, std::set<std::string>>> rows_of(const Json& trace) {
  std::map<int, std::map<int, std::string>> names;
  std::map<int, std::map<std::string, std::set<std::string>>> rows;
  for (const Json& e : trace)
    if (e.at("name") == "thread_name") names[e.at("pid")][e.at("tid")] = e.at("args").at("name");
  for (const Json& e : trace)
    if (e.at("ph") == "X") rows[e.at("pid")][names[e.at("pid")][e.at("tid")]].insert(e.at("name"));
  return rows;
}

TEST(RunTrace, HasThePartsOfTheSelectedStepsOfEveryRank) {
  const Scratch folder;
  auto rows = rows_of(trace_of(folder, {"profile.steps=2..3"}));
  ASSERT_EQ(rows.size(), 2u);
  for (auto& [rank, of_rank] : rows) {
    const auto& host = of_rank["host"];
    for (const char* name : {"step 2", "step 3", "data", "embedding forward", "layers.0.attention forward",
                             "layers.0.moe forward", "layers.0.moe.router forward", "layers.1.attention backward",
                             "layers.1.moe backward", "head and loss forward", "head and loss backward",
                             "embedding backward", "gradients: reduction", "gradients: norm", "optimizer"})
      EXPECT_TRUE(host.count(name)) << "rank " << rank << " has no " << name;
    EXPECT_FALSE(host.count("step 1") + host.count("step 4")) << "only the selected steps are recorded";
    EXPECT_TRUE(of_rank["compute"].count("experts[0]")) << "the trace must show the experts of a pass";
    EXPECT_EQ(of_rank.count("device"), test_device() == device::DeviceKind::cpu ? 0u : 1u);
  }
}

TEST(RunTrace, NamesRecomputedPartsOfBackward) {
  const Scratch folder;
  auto rows = rows_of(trace_of(folder, {"profile.steps=2", "recompute=block"}));
  const auto& host = rows[0]["host"];
  for (const char* name : {"layers.0 forward", "layers.0 backward", "layers.0.moe forward", "layers.0.moe recomputed",
                           "layers.0.attention recomputed"})
    EXPECT_TRUE(host.count(name)) << name;
}

TEST(RunTrace, HasTheMemoryInUse) {
  const Scratch folder;
  int64_t most = 0, least = INT64_MAX, samples = 0;
  for (const Json& e : trace_of(folder, {"profile.steps=3"})) {
    if (e.at("ph") != "C") continue;
    EXPECT_EQ(e.at("name"), "memory (bytes)");
    const int64_t activations = e.at("args").at("activation");
    EXPECT_GT(e.at("args").at("parameter").get<int64_t>(), 0);
    most = std::max(most, activations), least = std::min(least, activations);
    ++samples;
  }
  EXPECT_GT(samples, 2 * 20) << "the two ranks must have more than 40 samples together";
  EXPECT_GT(most, 2 * least) << "forward keeps activations, backward frees them";
}

TEST(RunTrace, SpansOfARowAreNested) {
  for (const char* overlap : {"none", "micro_batches"}) {
    const Scratch folder;
    const Json trace = trace_of(folder, {"profile.steps=2..3", std::string("schedule.pipeline.overlap=") + overlap});
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
    for (const Json& e : trace)
      if (e.at("ph") == "X")
        rows[{e.at("pid"), e.at("tid")}].push_back(
            {e.at("ts").get<double>(), e.at("ts").get<double>() + e.at("dur").get<double>()});
    ASSERT_FALSE(rows.empty());
    for (auto& [row, spans] : rows) {
      std::sort(spans.begin(), spans.end(),
                [](auto& a, auto& b) { return std::pair(a.first, -a.second) < std::pair(b.first, -b.second); });
      std::vector<double> open;
      constexpr double rounding = 1e-3;  // in microseconds
      for (const auto& [begin, end] : spans) {
        while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
        EXPECT_TRUE(open.empty() || end <= open.back() + rounding) << overlap << " " << begin;
        open.push_back(end);
      }
    }
  }
}

struct Interval {
  double begin, end;
  std::string name;
};

// Returns the fraction of a step, by rank, in which row "host" has only the span of the step itself. Takes the median
// over the steps, because a rank may lose its core between two spans.
std::map<int, double> uncovered_shares(const Json& trace) {
  std::map<int, int> host;  // number of the row, by rank
  for (const Json& e : trace)
    if (e.at("name") == "thread_name" && e.at("args").at("name") == "host") host[e.at("pid")] = e.at("tid");
  std::map<int, std::vector<Interval>> steps, parts;
  for (const Json& e : trace) {
    if (e.at("ph") != "X" || e.at("tid") != host.at(e.at("pid"))) continue;
    const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
    auto& of = e.at("name").get<std::string>().starts_with("step ") ? steps : parts;
    of[e.at("pid")].push_back({begin, end, e.at("name")});
  }
  std::map<int, double> shares;
  for (auto& [rank, of_rank] : steps) {
    std::ranges::sort(parts[rank], {}, &Interval::begin);
    std::vector<double> of_steps;
    for (const Interval& step : of_rank) {
      double covered_to = step.begin, gaps = 0;
      for (const Interval& part : parts[rank]) {
        if (part.begin < step.begin || part.begin > step.end) continue;
        gaps += std::max(0.0, part.begin - covered_to);
        covered_to = std::max(covered_to, part.end);
      }
      of_steps.push_back((gaps + std::max(0.0, step.end - covered_to)) / (step.end - step.begin));
    }
    std::ranges::sort(of_steps);
    shares[rank] = of_steps[of_steps.size() / 2];
  }
  return shares;
}

struct TracedLayout {
  int ranks;
  std::vector<std::string> overrides;
  std::vector<std::string> classes;
};

class TracedLayouts : public testing::TestWithParam<TracedLayout> {};

TEST_P(TracedLayouts, CoverAllClassesAnd97PercentOfAStep) {
  const Scratch folder;
  std::vector<std::string> overrides = GetParam().overrides;
  overrides.insert(overrides.end(), {"profile.steps=2..8", "model.hidden=32", "model.moe.expert_hidden=64",
                                     "model.context=32", "batch.global=16"});
  const Json trace = trace_of_ranks(GetParam().ranks, 8, folder, overrides);
  auto rows = rows_of(trace);
  ASSERT_EQ(rows.size(), static_cast<size_t>(GetParam().ranks));
  for (const std::string& name : GetParam().classes) {
    const auto is_wait = [&](const std::string& span) { return span.starts_with("wait: " + name + " "); };
    bool waits = false;  // true if a rank waits; the last rank to arrive never waits
    for (auto& [rank, of_rank] : rows) {
      EXPECT_FALSE(of_rank[name + " (intra)"].empty()) << "rank " << rank << " has no operation of " << name;
      EXPECT_FALSE(of_rank.count(name + " (inter)")) << "ranks that are threads share a node";
      waits |= std::ranges::any_of(of_rank["host"], is_wait);
    }
    // On a device, queues wait for communication, so ranks need not wait.
    EXPECT_TRUE(waits || test_device() != device::DeviceKind::cpu) << "no rank waits for " << name;
  }
  for (const auto& [rank, share] : uncovered_shares(trace)) EXPECT_LE(share, 0.03) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(, TracedLayouts,
                         testing::Values(TracedLayout{2, {"parallel.pp=2"}, {"pp", "control"}},
                                         TracedLayout{2, {"parallel.tp=2"}, {"tp", "control"}},
                                         TracedLayout{2, {"parallel.cp=2"}, {"cp", "dp"}},
                                         TracedLayout{2, {"parallel.zero=3"}, {"dp", "control"}},
                                         TracedLayout{2, {"parallel.ep=2"}, {"ep", "dp"}},
                                         TracedLayout{4, {"parallel.pp=2", "parallel.ep=2"}, {"pp", "ep", "dp"}}),
                         [](const auto& layout) {
                           std::string name;
                           for (const std::string& o : layout.param.overrides)
                             for (char c : o.substr(o.find('.') + 1))
                               name += c == '=' ? std::string() : std::string(1, c);
                           return name;
                         });

TEST(RunTrace, ShowsTheWaitsOfTheRanksThreadForLanes) {
  if (test_device() != device::DeviceKind::cpu) GTEST_SKIP() << "a device's lanes wait for each other without the host";
  const Scratch folder;
  auto rows =
      rows_of(trace_of(folder, {"profile.steps=2..4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}));
  ASSERT_EQ(rows.size(), 2u);
  for (auto& [rank, of_rank] : rows)
    EXPECT_TRUE(std::ranges::any_of(
        of_rank["host"], [](const std::string& span) { return span.starts_with("wait: S") || span == "wait: lanes"; }))
        << "rank " << rank;
}

TEST(RunTrace, CallsOperationsBetweenNodesInter) {
  const Scratch folder;
  comm::with_ranks(
      2,
      [&](const comm::ProcessGroup& world) {
        TrainingRun run(small_recipe({"parallel.ep=2", "profile.steps=2", "run.dir=" + folder.path()}), world);
        const auto say = [](const std::string&) {};
        RunTrace trace(run.recipe, run.instance, world, say, say);
        const FixedSource source = documents_of(run.recipe);
        for (int64_t step = 1; step <= 2; ++step) {
          trace.begin_step(step);
          run.step(source);
        }
        trace.end();
      },
      {.node_of_rank = {0, 1}});
  auto rows = rows_of(read_trace(folder / "trace.json.gz").at("traceEvents"));
  ASSERT_EQ(rows.size(), 2u);
  for (auto& [rank, of_rank] : rows) {
    for (const char* row : {"ep (inter)", "dp (inter)", "inter"}) EXPECT_TRUE(of_rank.count(row)) << row;
    for (const char* row : {"ep (intra)", "dp (intra)", "intra (all-to-all)"}) EXPECT_FALSE(of_rank.count(row)) << row;
  }
}

TEST(RunTrace, ChangesNoBit) {
  const comm::SelfGroup self;
  const Scratch folder;
  const Recipe recipe = small_recipe({"profile.steps=2..2", "run.dir=" + folder.path()});
  const FixedSource source = documents_of(recipe);
  TrainingRun plain(recipe, self), traced(recipe, self);
  const Trajectory expected = trajectory(plain, source, 3);
  RunTrace trace(recipe, traced.instance, self, {[](const std::string&) {}}, {[](const std::string&) {}});
  Trajectory actual;
  for (int64_t step = 1; step <= 3; ++step) {
    trace.begin_step(step);
    StepResult result = traced.step(source);
    actual.steps.push_back({std::move(result), traced.gradients()});
  }
  trace.end();
  actual.weights = traced.weights(), actual.states = traced.states();
  expect_bitwise(expected, actual);
}

TEST(Recipe, ProfiledStepsAreAStepOrARange) {
  EXPECT_NO_THROW(small_recipe({"profile.steps=3"}));
  EXPECT_NO_THROW(small_recipe({"profile.steps=3..10"}));
  for (const char* bad : {"0", "3..", "..3", "5..3", "3-5", "a", "-1..2"})
    EXPECT_NE(message_of(ExitCode::usage, [&] { small_recipe({std::string("profile.steps=") + bad}); })
                  .find("must be a step such as 5, or a range of steps such as 3..5"),
              std::string::npos)
        << bad;
  EXPECT_NE(message_of(ExitCode::usage, [] { small_recipe({"profile.steps=8..20"}); }).find("nearest: 8..10"),
            std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
