// Two micro-batches that run in turns give bitwise the same results as two sequential micro-batches.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>

#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/thread_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/schedule_trace.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

using namespace plan;

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
  std::vector<int> node_of_rank{};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr const char *in_turns = "schedule.pipeline.overlap=micro_batches",
                     *two_levels = "schedule.moe.all_to_all=hierarchical", *shared = "model.moe.shared_experts=1",
                     *beside = "schedule.moe.shared=beside";

// Returns overrides for memory reuse by `strategy`, in three chunks of tokens.
std::vector<std::string> restored(const std::string& strategy, const std::vector<std::string>& more) {
  std::vector<std::string> all{"schedule.moe.memory_reuse=" + strategy, "schedule.moe.chunk_by=tokens",
                               "schedule.moe.chunks=3"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Returns the recipe of a case. By default, a step has four micro-batches on each of two dp ranks.
Recipe recipe_for(const Case& c, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"batch.global=16", "distributed.bucket_bytes=8192"};
  all.insert(all.end(), c.overrides.begin(), c.overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

// Trains three steps on the ranks of the case. Returns the trajectory on rank 0.
Trajectory run_under(const Case& c, const std::vector<std::string>& more = {}, comm::ThreadOptions options = {}) {
  options.node_of_rank = c.node_of_rank;
  const Recipe recipe = recipe_for(c, more);
  const FixedSource source = documents_of(recipe);
  Trajectory result;
  comm::with_ranks(
      c.ranks,
      [&](const comm::ProcessGroup& world) {
        kernels::cpu::set_thread_count(1);
        TrainingRun run(recipe, world);
        Trajectory t = trajectory(run, source, 3);
        if (world.rank() == 0) result = std::move(t);
      },
      options);
  return result;
}

class MicroBatchesInTurns : public testing::TestWithParam<Case> {};

TEST_P(MicroBatchesInTurns, EqualSequentialMicroBatchesBitwise) {
  expect_bitwise(run_under(GetParam()), run_under(GetParam(), {in_turns}));
}

// The arrival times of messages have no effect. Groups of threads also check that all ranks call the same operations.
TEST_P(MicroBatchesInTurns, EqualSequentialMicroBatchesBitwiseWhenCommunicationIsLate) {
  const Trajectory expected = run_under(GetParam(), {in_turns});
  for (const uint64_t seed : {1, 2})
    expect_bitwise(expected, run_under(GetParam(), {in_turns},
                                       {.jitter = {.seed = seed, .max_delay = std::chrono::microseconds(300)},
                                        .watchdog_seconds = 30}));
}

INSTANTIATE_TEST_SUITE_P(
    , MicroBatchesInTurns,
    testing::Values(
        Case{"Alone", 1, {}}, Case{"Experts", 2, {"parallel.ep=2"}},
        Case{"Lanes", 2, {"parallel.ep=2", "schedule.worker_lanes=true"}},
        Case{"Bf16", 2, {"parallel.ep=2", "train.precision=bf16"}},
        Case{"Parts", 2, {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}},
        Case{"RowsOfTokens", 2, {"parallel.ep=2", "schedule.moe.rows=token"}},
        Case{"Blocks", 2, {"parallel.ep=2", "recompute=block"}},
        Case{"Offloaded", 2, {"parallel.ep=2", "offload.activations=true", "offload.min_bytes=0"}},
        Case{"Capacity", 2, {"parallel.ep=2", "model.moe.capacity_factor=1"}},
        Case{"TwoLevels", 4, {"parallel.ep=4", "batch.global=32", two_levels}, {0, 0, 1, 1}},
        Case{
            "TwoLevelsOfWeights", 4, {"parallel.ep=4", "batch.global=32", "parallel.zero=3", two_levels}, {0, 0, 1, 1}},
        Case{"SharedExperts", 2, {"parallel.ep=2", shared, beside}},
        Case{"SharedExpertsOfTensors", 4, {"parallel.tp=2", "parallel.ep=2", "batch.global=8", shared, beside}},
        Case{"SharedExpertsOfWeights", 4, {"parallel.ep=2", "parallel.zero=3", shared, beside}},
        Case{"Gradients", 4, {"parallel.ep=2", "parallel.zero=2"}},
        Case{"Weights", 4, {"parallel.ep=2", "parallel.zero=3"}},
        Case{"Tensors", 4, {"parallel.tp=2", "parallel.ep=2", "batch.global=8"}},
        Case{"WholeTensors",
             4,
             {"parallel.tp=2", "parallel.ep=2", "parallel.etp=2", "schedule.moe.duplicates=pause_after_gate",
              "schedule.moe.overlap=a2a_allgather_copy", "schedule.moe.chunks=2"}},
        Case{"Contexts", 4, {"parallel.cp=2", "parallel.ep=4", "batch.global=8"}},
        Case{"OneForwardOneBackward", 2, {"parallel.pp=2", "model.layers=4"}},
        Case{"StagesWithPrediction",
             4,
             {"parallel.pp=2", "parallel.ep=2", "model.layers=4", "model.prediction_blocks=1"}},
        Case{"StagesOfExperts", 4, {"parallel.pp=2", "parallel.ep=2"}},
        Case{"DualPipe", 2, {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=dualpipe_v"}},
        Case{"DualPipeOfExperts",
             4,
             {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=dualpipe_v", "parallel.ep=2",
              "batch.global=24", "schedule.worker_lanes=true"}}),
    [](const auto& i) { return i.param.name; });

// Lanes have threads if memory is reused and schedule.worker_lanes is not false. These threads post collectives while
// the rank's thread posts collectives of the other micro-batch.
INSTANTIATE_TEST_SUITE_P(
    MemoryReuse, MicroBatchesInTurns,
    testing::Values(
        Case{"S1", 2, restored("s1", {"parallel.ep=2"})}, Case{"S2", 2, restored("s2", {"parallel.ep=2"})},
        Case{"S3", 2, restored("s3", {"parallel.ep=2"})}, Case{"S4", 2, restored("s4", {"parallel.ep=2"})},
        Case{"S4Inline", 2, restored("s4", {"parallel.ep=2", "schedule.worker_lanes=false"})},
        Case{"S4Alone", 1, restored("s4", {})},
        Case{"S4Bf16", 2, restored("s4", {"parallel.ep=2", "train.precision=bf16"})},
        Case{"S4RowsOfTokens", 2, restored("s4", {"parallel.ep=2", "schedule.moe.rows=token"})},
        Case{"S4Capacity", 2, restored("s4", {"parallel.ep=2", "model.moe.capacity_factor=1"})},
        Case{"S4SharedExperts", 2, restored("s4", {"parallel.ep=2", shared, beside})},
        Case{"S1Offloaded", 2, restored("s1", {"parallel.ep=2", "offload.activations=true", "offload.min_bytes=0"})},
        Case{"S3TwoLevels", 4, restored("s3", {"parallel.ep=4", "batch.global=32", two_levels}), {0, 0, 1, 1}},
        Case{"S4Weights", 4, restored("s4", {"parallel.ep=2", "parallel.zero=3"})},
        // Threads of lanes gather tokens in the tp groups, in which the ranks' own threads also post collectives.
        Case{"S4Tensors", 4, restored("s4", {"parallel.tp=2", "parallel.ep=2", "batch.global=8"})},
        Case{"S2Drop", 4,
             restored("s2", {"parallel.tp=2", "parallel.ep=2", "batch.global=8", "schedule.moe.duplicates=drop"})},
        // The counts of rows are exchanged in the group of the all-to-all.
        Case{"S4WholeTensorsDirect", 4,
             restored("s4", {"parallel.tp=2", "parallel.ep=2", "parallel.etp=2", "batch.global=8",
                             "schedule.moe.duplicates=pause_after_gate", "schedule.moe.esp_exchange=direct"})},
        Case{"S4Replicated", 4,
             restored("s4", {"parallel.tp=2", "parallel.ep=2", "parallel.etp=2", "batch.global=8",
                             "schedule.moe.duplicates=replicated"})},
        Case{"S4Contexts", 4, restored("s4", {"parallel.cp=2", "parallel.ep=4", "batch.global=8"})},
        Case{"S4StagesOfExperts", 4, restored("s4", {"parallel.pp=2", "parallel.ep=2"})},
        Case{"S2DualPipeOfExperts", 4,
             restored("s2", {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=dualpipe_v", "parallel.ep=2",
                             "batch.global=24"})}),
    [](const auto& i) { return i.param.name; });

// Returns the number of pairs of passes that overlap in a step of rank 0, in a run of two ranks.
int64_t interleaved_passes(const std::vector<std::string>& more) {
  const Case c{"", 2, {"parallel.ep=2"}};
  std::atomic<int64_t> count = 0;
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_for(c, more), world);
    const PassRecorder recorder(run.instance);
    run.step(documents_of(run.recipe));
    if (world.rank() != 0) return;
    const auto begin = [](const PassRecorder::Recording& p) { return p.times.front().begin; };
    for (const PassRecorder::Recording& a : recorder.passes())
      for (const PassRecorder::Recording& b : recorder.passes())
        count += begin(a) < begin(b) && begin(b) < a.times.back().begin;
  });
  return count;
}

TEST(PassesInTurns, BeginWhileTheOtherMicroBatchIsInFlight) {
  for (const std::vector<std::string>& schedule : {std::vector<std::string>{}, restored("s4", {})}) {
    EXPECT_EQ(interleaved_passes(schedule), 0);
    std::vector<std::string> pairs = schedule;
    pairs.emplace_back(in_turns);
    EXPECT_GE(interleaved_passes(pairs), 3 * 2) << "three pairs of micro-batches overlap in two layers";
  }
}

// Rank 0 has experts 0 and 1. Its rows arrive in the order of the experts, because expert 1 has no rows. Only rank 1
// has tasks that copy rows into the order of the experts.
TEST(PassesInTurns, MeetOnRanksWithDifferentCopies) {
  const Scratch scratch;
  std::ofstream(scratch / "trace") << "0 2\n0 3\n";
  for (const char* lanes : {"false", "true"})
    for (const std::vector<std::string>& schedule : {std::vector<std::string>{}, restored("s4", {})}) {
      Case c{"", 2, schedule};
      c.overrides.insert(c.overrides.end(),
                         {"parallel.ep=2", "model.moe.routing=trace", cat("model.moe.trace=", scratch / "trace"),
                          cat("schedule.worker_lanes=", lanes)});
      expect_bitwise(run_under(c), run_under(c, {in_turns}, {.watchdog_seconds = 30}));
    }
}

// Makes forward fail while rows of the other micro-batch's backward are in flight, and vice versa.
TEST(PassesInTurns, ErrorInOneMicroBatchEndsTheStep) {
  class Failing final : public schedule::GraphRunner {
   public:
    Failing(ModelInstance& instance, schedule::PassKind kind) : instance_(instance), kind_(kind) {
      instance_.run_passes_by(this);
    }
    ~Failing() override { instance_.run_passes_by(nullptr); }
    void run(const schedule::PassName& pass, const schedule::TaskGraph& graph,
             device::DeviceContext& context) override {
      if (pass.kind == kind_ && ++passes_ == 4) fail(ExitCode::numeric, "no more ", name_of(kind_));
      instance_.passes.run(pass, graph, context);
    }

   private:
    ModelInstance& instance_;
    const schedule::PassKind kind_;
    int passes_ = 0;
  };
  const auto error_under = [&](schedule::PassKind kind, const std::vector<std::string>& overrides) {
    return message_of(ExitCode::numeric, [&] {
      on_ranks(2, [&](const comm::ProcessGroup& world) {
        TrainingRun run(recipe_for({"", 2, {"parallel.ep=2", in_turns}}, overrides), world);
        const Failing failing(run.instance, kind);
        run.step(documents_of(run.recipe));
      });
    });
  };
  for (const schedule::PassKind kind : {schedule::PassKind::forward, schedule::PassKind::backward})
    for (const std::string lanes : {"false", "true"}) {
      const std::string own_threads = "schedule.worker_lanes=" + lanes;
      EXPECT_EQ(error_under(kind, {own_threads}), cat("no more ", name_of(kind)));
      EXPECT_EQ(error_under(kind, restored("s1", {own_threads})), cat("no more ", name_of(kind)));
    }
}

std::string refusal(const std::vector<std::string>& overrides) {
  return message_of(ExitCode::usage, [&] { recipe_for({"", 1, {}}, overrides); });
}

TEST(MicroBatchOverlap, IsRefusedWithTheReason) {
  EXPECT_NE(refusal({in_turns, "parallel.pp=2", "schedule.pipeline.kind=gpipe"})
                .find("pairs a forward with a backward, but other stages would wait for each pair under "
                      "schedule.pipeline.kind: gpipe; set kind: 1f1b or dualpipe_v, or overlap: none"),
            std::string::npos);
  EXPECT_NO_THROW(recipe_for({"", 1, {}}, {in_turns, "schedule.moe.memory_reuse=s4"}));
  EXPECT_NE(refusal({in_turns, "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=1000000000"})
                .find("needs schedule.moe.memory_limit: none (now 1000000000 bytes): with a limit, ep groups may use"),
            std::string::npos);
  EXPECT_NE(refusal({in_turns, "schedule.moe.chunk_by=auto"}).find("auto compares durations of passes"),
            std::string::npos);
  EXPECT_NE(refusal({in_turns, "model.moe.experts=0"}).find("but the model has no MoE layers (model.moe.experts is 0)"),
            std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
