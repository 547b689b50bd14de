// What profile.steps records of a run.
#include "tools/train/run_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "parallel/comm/self_group.h"
#include "tests/support/read_trace.h"
#include "tests/training/scratch.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using namespace verify;

namespace {

using Json = nlohmann::json;

// Four steps of two ranks with two layers of experts.
Json trace_of(const Scratch& folder, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"parallel.ep=2", "run.dir=" + folder.path()});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(small_recipe(overrides), world);
    std::vector<std::string> said;
    const auto say = [&](const std::string& text) { said.push_back(text); };
    RunTrace trace(run.recipe, run.instance, world, say, say);
    const FixedSource source = documents_of(run.recipe);
    for (int64_t step = 1; step <= 4; ++step) {
      trace.begin_step(step);
      run.step(source);
    }
    trace.end();
    EXPECT_EQ(said.empty(), world.rank() != 0);
  });
  return read_trace(folder / "trace.json.gz").at("traceEvents");
}

// rank -> row -> names of spans, each once
std::map<int, std::map<std::string, std::set<std::string>>> rows_of(const Json& trace) {
  std::map<int, std::map<int, std::string>> names;
  std::map<int, std::map<std::string, std::set<std::string>>> rows;
  for (const Json& e : trace)
    if (e.at("name") == "thread_name") names[e.at("pid")][e.at("tid")] = e.at("args").at("name");
  for (const Json& e : trace)
    if (e.at("ph") == "X") rows[e.at("pid")][names[e.at("pid")][e.at("tid")]].insert(e.at("name"));
  return rows;
}

TEST(RunTrace, HasTheWholeStepOfEveryRank) {
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
    EXPECT_FALSE(host.count("step 1") + host.count("step 4")) << "only what was asked for";
    EXPECT_TRUE(of_rank["compute"].count("C0")) << "the experts of a pass";
    EXPECT_EQ(of_rank.count("device"), test_device() == device::DeviceKind::cpu ? 0u : 1u);
  }
}

TEST(RunTrace, NamesWhatBackwardRecomputes) {
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
  EXPECT_GT(samples, 2 * 20) << "more than a few a rank";
  EXPECT_GT(most, 2 * least) << "forward keeps activations, backward frees them";
}

TEST(RunTrace, SpansOfARowLieInsideEachOther) {
  for (const char* overlap : {"none", "micro_batches"}) {
    const Scratch folder;
    const Json trace = trace_of(folder, {"profile.steps=2..3", std::string("schedule.pipeline.overlap=") + overlap});
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
    for (const Json& e : trace)
      if (e.at("ph") == "X")
        rows[{e.at("pid"), e.at("tid")}].push_back(
            {e.at("ts").get<double>(), e.at("ts").get<double>() + e.at("dur").get<double>()});
    for (auto& [row, spans] : rows) {
      std::sort(spans.begin(), spans.end(),
                [](auto& a, auto& b) { return std::pair(a.first, -a.second) < std::pair(b.first, -b.second); });
      std::vector<double> open;
      constexpr double rounding = 1e-3;  // microseconds
      for (const auto& [begin, end] : spans) {
        while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
        EXPECT_TRUE(open.empty() || end <= open.back() + rounding) << overlap << " " << begin;
        open.push_back(end);
      }
    }
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
                  .find("must be a step, 5, or a range of steps, 3..5"),
              std::string::npos)
        << bad;
  EXPECT_NE(message_of(ExitCode::usage, [] { small_recipe({"profile.steps=8..20"}); }).find("nearest: 8..10"),
            std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
