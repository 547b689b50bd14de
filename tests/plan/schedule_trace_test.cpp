// Trace of the training step that schedule.trace selects.
#include "tools/plan/schedule_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/read_trace.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/cluster.h"

namespace hexad::tests {

using namespace train;
using namespace verify;
namespace {

using namespace plan;

constexpr double rounding = 1e-6;  // tolerance of sums of times, in microseconds

using Passes = std::vector<PassRecorder::Recording>;

// Returns a recipe with two layers, two micro-batches on each of two ranks, and two chunks.
Recipe traced_recipe(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.end(), {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"});
  return small_recipe(overrides);
}

Passes recorded_step(TrainingRun& run) {
  const PassRecorder recorder(run.instance);
  run.step(documents_of(run.recipe));
  return recorder.passes();
}

// Returns rank 0's trace of a step of two ranks.
ScheduleTrace trace_of_two(const Recipe& recipe, const comm::ThreadOptions& options = {}) {
  ScheduleTrace trace;
  comm::with_ranks(
      2,
      [&](const comm::ProcessGroup& world) {
        kernels::cpu::set_thread_count(1);
        TrainingRun run(recipe, world);
        const Passes passes = recorded_step(run);
        auto mine = gather_trace(passes, Predictor(recipe, run.instance.mesh), world, run.instance.context);
        EXPECT_EQ(mine.has_value(), world.rank() == 0);
        if (mine) trace = std::move(*mine);
      },
      options);
  return trace;
}

TEST(ScheduleTrace, FileHasMeasuredAndPredictedRowsOfEveryRank) {
  const Scratch folder;
  telemetry::write_trace(folder / "trace.json.gz", {trace_of_two(traced_recipe()).events, {}});
  std::map<int, std::set<std::string>> rows;
  std::map<int, std::map<std::string, int>> tasks;  // number of tasks, by rank and kind of row
  const nlohmann::json trace = read_trace(folder / "trace.json.gz");
  for (const auto& e : trace.at("traceEvents")) {
    const int rank = e.at("pid");
    if (e.at("name") == "thread_name") rows[rank].insert(e.at("args").at("name").get<std::string>());
    if (e.at("ph") != "X") continue;
    EXPECT_GE(e.at("ts").get<double>(), 0);
    EXPECT_GE(e.at("dur").get<double>(), 0);
    const std::string pass = e.at("args").at("pass");
    EXPECT_TRUE(pass.starts_with("layers.0.moe ") || pass.starts_with("layers.1.moe ")) << pass;
    tasks[rank][e.at("cat").get<std::string>().ends_with(" (predicted)") ? "predicted" : "measured"]++;
  }
  ASSERT_EQ(rows.size(), 2u);
  for (int rank : {0, 1}) {
    for (const char* row : {"intra (all-to-all)", "intra (all-to-all) (predicted)", "compute", "compute (predicted)"})
      EXPECT_TRUE(rows[rank].contains(row)) << row << " of rank " << rank;
    EXPECT_EQ(tasks[rank]["measured"], tasks[rank]["predicted"]);
    EXPECT_GT(tasks[rank]["measured"], 0);
  }
}

TEST(ScheduleTrace, PredictedRowShowsOneTaskAtATime) {
  std::map<std::pair<int, std::string>, double> end;
  for (const auto& e : trace_of_two(traced_recipe()).events) {
    if (!e.lane.ends_with(" (predicted)")) continue;
    double& last = end[{e.rank, e.lane}];
    EXPECT_GE(e.start_us, last - rounding) << e.name << " in " << e.lane << " of rank " << e.rank;
    last = e.start_us + e.duration_us;
  }
  EXPECT_FALSE(end.empty());
}

TEST(ScheduleTrace, PredictionsAccountForTheWorkOfOtherRanks) {
  const ScheduleTrace trace =
      trace_of_two(traced_recipe({"model.moe.routing=zipf", "model.moe.zipf_exponent=20", "model.moe.top_k=1"}));
  std::map<int, double> begin, computed, returned;  // times of the first pass, in microseconds
  for (const auto& e : trace.events) {
    if (!e.lane.ends_with(" (predicted)") || std::get<std::string>(e.args.at("pass")) != "layers.0.moe forward")
      continue;
    if (e.name.starts_with("dispatch.pack[0]") && !begin.contains(e.rank)) begin[e.rank] = e.start_us;
    if (e.name.starts_with("experts[0]") && !computed.contains(e.rank)) computed[e.rank] = e.duration_us;
    if (e.name.starts_with("combine.a2a[1]") && !returned.contains(e.rank))
      returned[e.rank] = e.start_us + e.duration_us;
  }
  for (auto& [rank, end] : returned) end -= begin.at(rank);
  ASSERT_EQ(returned.size(), 2u);
  const double difference = std::abs(computed[0] - computed[1]);
  ASSERT_GT(difference, 10) << "one rank must have most of the rows";
  EXPECT_NEAR(returned[0], returned[1], difference / 5)
      << "both ranks get the last results once the slower rank has computed them";
}

TEST(ScheduleTrace, SumsThePassesOfEachKind) {
  const ScheduleTrace trace = trace_of_two(traced_recipe());
  ASSERT_EQ(trace.kinds.size(), 2u);
  EXPECT_EQ(trace.kinds[0].kind, schedule::PassKind::forward);
  EXPECT_EQ(trace.kinds[1].kind, schedule::PassKind::backward);
  double predicted = 0, measured = 0;
  std::map<std::string, double> exposed;
  for (const ScheduleTrace::Kind& kind : trace.kinds) {
    EXPECT_EQ(kind.passes, 2 * 2 * 2) << "layers x micro-batches x ranks";
    EXPECT_GT(kind.seconds.predicted_seconds, 0);
    EXPECT_GE(kind.seconds.measured_seconds, kind.exposed);
    predicted += kind.seconds.predicted_seconds, measured += kind.seconds.measured_seconds;
    for (const auto& [name, seconds] : kind.seconds.exposed_seconds) exposed[name] += seconds;
    EXPECT_TRUE(kind.seconds.exposed_seconds.contains("dispatch.a2a") &&
                kind.seconds.exposed_seconds.contains("combine.a2a"));
  }
  EXPECT_DOUBLE_EQ(trace.total.predicted_seconds, predicted);
  EXPECT_DOUBLE_EQ(trace.total.measured_seconds, measured);
  ASSERT_EQ(trace.total.exposed_seconds.size(), exposed.size());
  for (const auto& [name, seconds] : exposed) EXPECT_DOUBLE_EQ(trace.total.exposed_seconds.at(name), seconds) << name;
}

TEST(ScheduleTrace, DrawsTheFirstLayerForwardAndBackward) {
  const ScheduleTrace trace = trace_of_two(traced_recipe());
  ASSERT_EQ(trace.pictures.size(), 2u);
  EXPECT_NE(trace.pictures[0].find("layers.0.moe forward, rank 0"), std::string::npos);
  EXPECT_NE(trace.pictures[1].find("layers.0.moe backward, rank 0"), std::string::npos);
}

TEST(ScheduleTrace, HasRanksOfSeveralNodesAndAssumedLinksBetweenThem) {
  const ScheduleTrace trace = trace_of_two(traced_recipe(), {.node_of_rank = {0, 1}});
  std::set<int> ranks;
  for (const auto& e : trace.events) ranks.insert(e.rank);
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  ASSERT_FALSE(trace.assumed_links.empty());
  EXPECT_NE(trace.assumed_links[0].find("between nodes"), std::string::npos) << trace.assumed_links[0];
}

// All passes of rank 1 are moved to a time after the passes of rank 0. The trace must show rank 1's passes at this
// time.
TEST(ScheduleTrace, TimesOfSeveralNodesHaveOneZero) {
  constexpr double later = 1000;  // seconds, many times the error of a comparison of clocks
  const Recipe recipe = traced_recipe();
  std::array<double, 2> first{};  // by rank: begin of the first pass, in seconds
  std::map<int, double> shown;    // by rank: begin of the first measured task in the trace, in microseconds
  comm::with_ranks(2,
                   [&](const comm::ProcessGroup& world) {
                     kernels::cpu::set_thread_count(1);
                     TrainingRun run(recipe, world);
                     Passes passes = recorded_step(run);
                     double& begin = first[world.rank()];
                     begin = std::numeric_limits<double>::infinity();
                     for (PassRecorder::Recording& pass : passes) {
                       for (schedule::TaskTime& time : pass.times)
                         time.begin += later * world.rank(), time.end += later * world.rank();
                       begin = std::min(begin, pass.begin());
                     }
                     const auto trace =
                         gather_trace(passes, Predictor(recipe, run.instance.mesh), world, run.instance.context);
                     if (!trace) return;
                     for (const auto& e : trace->events) {
                       if (e.lane.ends_with(" (predicted)")) continue;
                       double& earliest = shown.try_emplace(e.rank, e.start_us).first->second;
                       earliest = std::min(earliest, e.start_us);
                     }
                   },
                   {.node_of_rank = {0, 1}});
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_NEAR(1e-6 * (shown[1] - shown[0]), first[1] - first[0], later / 100);
}

TEST(ScheduleTrace, ProfileReplacesAssumptionsAboutLinks) {
  const Scratch folder;
  std::ofstream(folder / "cluster.yaml") << plan::to_yaml(plan::default_cluster(1, 2));
  const auto links = [](const std::vector<std::string>& overrides) {
    return trace_of_two(traced_recipe(overrides)).assumed_links;
  };
  const std::vector<std::string> assumed = links({});
  ASSERT_EQ(assumed.size(), 1u);
  EXPECT_TRUE(assumed[0].starts_with("all_to_all of ep, 2 ranks")) << assumed[0];
  EXPECT_TRUE(links({"schedule.profile=" + folder / "cluster.yaml"}).empty());
}

TEST(ScheduleTrace, ProfileWithoutLinksOfAGroupIsRefused) {
  const Scratch folder;
  plan::Cluster cluster = plan::default_cluster(1, 2);
  std::erase_if(cluster.links, [](const plan::MeasuredLink& l) { return l.operation == plan::Collective::all_to_all; });
  std::ofstream(folder / "cluster.yaml") << plan::to_yaml(cluster);
  try {
    trace_of_two(traced_recipe({"schedule.profile=" + folder / "cluster.yaml"}));
    ADD_FAILURE() << "no error was thrown";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "the cluster has no measured all_to_all for group ep of 2 ranks on 1 node; to measure it, "
                 "run hexad profile on such ranks");
  }
}

TEST(Predictor, NamesTheRatesThatItAssumes) {
  const Scratch folder;
  const std::string file = folder / "cluster.yaml";
  plan::Cluster cluster = plan::default_cluster(1, 2);
  const auto assumed = [&](const std::string& precision) {
    std::ofstream(file) << plan::to_yaml(cluster);
    const comm::SelfGroup self;
    const Recipe recipe = small_recipe({"schedule.profile=" + file, "train.precision=" + precision});
    const TrainingRun run(recipe, self);
    return Predictor(recipe, run.instance.mesh).assumed_rates;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(assumed("f32"),
            Texts{file + " has no slowdowns; predictions assume that concurrent work does not slow other work down"});
  cluster.slowdowns = {{.of = device::Lane::compute, .beside = {device::Lane::copy}, .speed = 0.9}};
  EXPECT_EQ(assumed("f32"), Texts{});
  std::erase_if(cluster.products, [](const auto& p) { return p.pass != plan::GemmPass::forward; });
  EXPECT_EQ(assumed("f64"),
            (Texts{"train.precision is f64, but " + file +
                       " has only products of f32 and bf16; predictions assume that products of f64 take as long as "
                       "those of f32",
                   file + " lacks products of some passes, which are predicted like those of the first measured pass: "
                          "input_gradient, weight_gradient"}));
}

TEST(ScheduleTrace, MissingProfileIsRefused) {
  const comm::SelfGroup self;
  const Recipe recipe = small_recipe({"schedule.profile=nowhere.yaml"});
  const TrainingRun run(recipe, self);
  EXPECT_NE(message_of(ExitCode::usage, [&] { Predictor(recipe, run.instance.mesh); }).find("nowhere.yaml"),
            std::string::npos);
}

TEST(ScheduleTrace, StageWithoutMoeLayersAddsNothing) {
  const Recipe recipe = small_recipe({"parallel.pp=2", "model.moe.dense_layers=1"});
  const ScheduleTrace trace = trace_of_two(recipe);
  ASSERT_EQ(trace.kinds.size(), 2u);
  EXPECT_EQ(trace.kinds[0].passes, 4);
  EXPECT_TRUE(trace.pictures.empty()) << "rank 0 has no MoE layer";
  for (const auto& e : trace.events) EXPECT_EQ(e.rank, 1);
}

TEST(ScheduleTrace, ChangesNoBit) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const Recipe recipe = traced_recipe();
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), traced(recipe, world);
    const Trajectory expected = trajectory(plain, source, 3);
    Trajectory actual;
    for (int s = 0; s < 3; ++s) {
      std::optional<PassRecorder> recorder;
      if (s == 1) recorder.emplace(traced.instance);
      StepResult result = traced.step(source);
      actual.steps.push_back({std::move(result), traced.gradients()});
      if (recorder)
        gather_trace(recorder->passes(), Predictor(recipe, traced.instance.mesh), world, traced.instance.context);
    }
    actual.weights = traced.weights(), actual.states = traced.states();
    expect_bitwise(expected, actual);
  });
}

TEST(PassRecorder, RecordsOnlyWhileItExists) {
  const comm::SelfGroup self;
  TrainingRun run(small_recipe(), self);
  const FixedSource source = documents_of(run.recipe);
  run.step(source);
  EXPECT_EQ(recorded_step(run).size(), 2u * 4 * 2) << "layers x micro-batches x forward and backward, of one step";
  run.step(source);  // fails if a deleted recorder is still called
  EXPECT_EQ(recorded_step(run).size(), 2u * 4 * 2);
}

// The time of a layer includes the exchange of counts, which precedes its pass.
TEST(PassRecorder, TimesLayersAroundTheirPasses) {
  constexpr double clock_error = 1e-4;  // error of a device's times, in seconds
  for (const char* const layout : {"parallel.ep=2", "parallel.tp=2"})
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(small_recipe({layout}), world);
      const PassRecorder recorder(run.instance);
      run.step(documents_of(run.recipe));
      const Passes& passes = recorder.passes();
      std::vector<PassRecorder::LayerTime> layers = recorder.layers();
      ASSERT_EQ(layers.size(), passes.size()) << layout;
      for (const PassRecorder::Recording& pass : passes) {
        const auto layer = std::ranges::find(layers, pass.name, &PassRecorder::LayerTime::name);
        ASSERT_NE(layer, layers.end()) << layout << ": " << pass.name.text();
        // Threads may note the ends of exchanges after the layer has ended, so only the compute lane's ends count.
        double end = 0;
        for (size_t i = 0; i < pass.times.size(); ++i)
          if (pass.graph.tasks()[i].spec.lane == schedule::Lane::compute) end = std::max(end, pass.times[i].end);
        EXPECT_LE(layer->time.begin, pass.begin() + clock_error) << layout << ": " << pass.name.text();
        EXPECT_GE(layer->time.end, end - clock_error) << layout << ": " << pass.name.text();
        layers.erase(layer);  // the next pass of this name belongs to the next micro-batch
      }
    });
}

TEST(PassRecorder, KeepsNoTensorOfAPass) {
  const comm::SelfGroup self;
  TrainingRun run(small_recipe(), self);
  const auto in_use = [&] {
    run.instance.context.compute().synchronize();
    return run.instance.context.allocator()->stats().total;
  };
  const FixedSource source = documents_of(run.recipe);
  run.step(source);
  const int64_t before = in_use();
  const PassRecorder recorder(run.instance);
  run.step(source);
  // On a device, the values that the host has read may be freed slightly later.
  EXPECT_NEAR(static_cast<double>(in_use()), static_cast<double>(before),
              test_device() == device::DeviceKind::cpu ? 0 : 512);
  EXPECT_FALSE(recorder.passes().empty());
}

TEST(Recipe, TraceNeedsAnExecutedStepAndAnMoeLayer) {
  EXPECT_NE(message_of(ExitCode::usage, [] { small_recipe({"schedule.trace=11"}); }).find("train.steps is 10"),
            std::string::npos);
  EXPECT_NE(message_of(ExitCode::usage,
                       [] {
                         small_recipe({"schedule.trace=1", "model.moe.experts=0"});
                       })
                .find("the model has none"),
            std::string::npos);
  EXPECT_NO_THROW(small_recipe({"schedule.trace=10"}));
}

}  // namespace
}  // namespace hexad::tests
