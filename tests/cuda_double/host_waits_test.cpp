// Waits of the host for the device in a training step. Every wait must be a named read (read_to_host) that the manual
// lists.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "framework/device/host_wait.h"
#include "parallel/comm/self_group.h"
#include "tests/support/cuda_double/host_waits.h"
#include "tests/training/training.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/model/generation.h"
#include "tools/train/model/pass_recorder.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::tests {
namespace {

using verify::TrainingRun;

using Counts = std::map<std::string, int64_t>;

struct StepCounts {
  Counts waits, reads;  // sums over all ranks
};

// Part of a run whose waits are counted.
using Counted = std::function<void(TrainingRun& run, const data::Source& source)>;

// Runs one training step, which makes objects that are reused later. Then runs `counted` and returns its counts. NCCL
// connects the ranks, as it does in a job with a card for each rank.
StepCounts counts_of(int ranks, std::vector<std::string> overrides, const Counted& counted) {
  overrides.insert(overrides.begin(), {"batch.global=4", "batch.micro=1"});
  if (ranks > 1) overrides.emplace_back("distributed.device_collectives=nccl");
  cuda_double::name_host_waits_by([] { return std::string(device::HostWait::current()); });
  StepCounts counts;
  std::mutex mutex;
  const auto on_rank = [&](const comm::ProcessGroup& world) {
    const auto meet = [&] {
      device::InlineStream here;
      world.barrier(here).wait();
    };
    TrainingRun run(small_recipe(overrides), world);
    ASSERT_EQ(run.instance.context.kind(), device::DeviceKind::cuda);
    const auto source = verify::documents_of(run.recipe);
    run.step(source);
    run.instance.context.take_host_reads();
    meet();
    if (world.rank() == 0) cuda_double::take_host_waits();
    meet();
    counted(run, source);
    meet();
    {
      std::lock_guard lock(mutex);
      for (const auto& [name, count] : run.instance.context.take_host_reads()) counts.reads[name] += count;
      if (world.rank() == 0) counts.waits = cuda_double::take_host_waits();
    }
    meet();
  };
  if (ranks == 1)
    on_rank(comm::SelfGroup());
  else
    on_ranks(ranks, on_rank);
  cuda_double::name_host_waits_by(nullptr);
  counts.waits.erase("thread of a host's queue");  // these are waits of another thread, not of the rank's thread
  return counts;
}

// Returns the counts of the second step. The MoE passes of this step are recorded if `measured` is true, and their
// times are read after the step.
StepCounts second_step(int ranks, const std::vector<std::string>& overrides, bool measured = false) {
  return counts_of(ranks, overrides, [&](TrainingRun& run, const data::Source& source) {
    std::optional<train::PassRecorder> recorder;
    if (measured) recorder.emplace(run.instance);
    run.step(source);
    if (measured) {
      EXPECT_FALSE(recorder->passes().empty());
    }
  });
}

// Prints a row of a table: name, ranks, and the number of waits by name.
void print_row(const std::string& name, int ranks, const Counts& waits) {
  std::string text;
  for (const auto& [what, count] : waits) text += base::cat(text.empty() ? "" : ", ", what, " ", count);
  std::printf("| %s | %d | %s |\n", name.c_str(), ranks, text.c_str());
}

// Returns the reads of one step on `ranks` ranks, without the reads of routing counts.
Counts once_a_rank(int64_t ranks) {
  return {{"step: norm and loss", ranks}, {"step: router counts", ranks}, {"step: router losses", ranks}};
}

void expect_reads(const StepCounts& counts, const Counts& expected) {
  EXPECT_EQ(counts.reads, expected);
  EXPECT_EQ(counts.waits, expected) << "the host must wait exactly once for each read";
}

TEST(HostWaits, StepOfOneRankReadsNoRoutingCounts) { expect_reads(second_step(1, {}), once_a_rank(1)); }

TEST(HostWaits, StepOfOneRankInChunksOfTokensReadsNoRoutingCounts) {
  expect_reads(second_step(1, {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}), once_a_rank(1));
}

// Experts compute gradients of activations in blocks of rows of one expert, so the host needs the counts.
TEST(HostWaits, StepOfOneRankUnderMemoryReuseReadsTheCountsOnceALayer) {
  Counts expected = once_a_rank(1);
  expected["routing: counts"] = 2 * 4;
  expect_reads(
      second_step(1, {"schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}),
      expected);
}

// Expects that each rank waits once more if passes are measured, to relate the card's times to the host's times. A rank
// may wait twice more in a step of over 16 s, because the card's clock then gets a new reference.
void expect_one_more_if_measured(int ranks, const std::vector<std::string>& overrides) {
  const StepCounts plain = second_step(ranks, overrides);
  StepCounts measured = second_step(ranks, overrides, true);
  EXPECT_EQ(measured.reads, plain.reads);
  const int64_t clocks = measured.waits["clock of the card"];
  EXPECT_GE(clocks, ranks);
  EXPECT_LE(clocks, 2 * ranks);
  measured.waits.erase("clock of the card");
  EXPECT_EQ(measured.waits, plain.waits);
}

TEST(HostWaits, MeasuredPassesInChunksAddOnlyTheClock) {
  expect_one_more_if_measured(2, {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"});
}

TEST(HostWaits, MeasuredPassesOfOneRankAddOnlyTheClock) { expect_one_more_if_measured(1, {}); }

struct Layout {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
  Counts routing{};  // reads in MoE layers, summed over the ranks
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

// Each of two MoE layers reads `times` times for each of four micro-batches. Both tp ranks read for the same
// micro-batch if there is tensor parallelism.
Counts for_each_pass(const std::string& name, int64_t times = 1) { return {{name, times * 2 * 4}}; }

const std::string counts = "routing: counts", ids = "routing: ids";
const std::string in_chunks = "schedule.moe.chunk_by=tokens";

std::vector<Layout> layouts() {
  return {
      {"Experts", 2, {"parallel.ep=2"}, for_each_pass(counts)},
      {"Stages", 2, {"parallel.pp=2"}},
      {"StagesOfExperts", 4, {"parallel.pp=2", "parallel.ep=2"}, for_each_pass(counts)},
      {"Zero2", 2, {"parallel.zero=2", "distributed.bucket_bytes=4096"}},
      {"Zero3", 2, {"parallel.zero=3", "distributed.bucket_bytes=4096"}},
      {"OverlapOfUpdates", 1, {"optim.overlap=true"}},
      {"OverlapOfUpdatesZero1", 2, {"optim.overlap=true", "parallel.zero=1", "distributed.bucket_bytes=4096"}},
      {"OverlapOfUpdatesZero2", 2, {"optim.overlap=true", "parallel.zero=2", "distributed.bucket_bytes=4096"}},
      {"OverlapOfUpdatesZero3", 2, {"optim.overlap=true", "parallel.zero=3", "distributed.bucket_bytes=4096"}},
      {"Zero3OfExperts",
       4,
       {"parallel.zero=3", "distributed.bucket_bytes=4096", "parallel.ep=2"},
       for_each_pass(counts)},
      // The ranks have the same tokens. Each rank sends a part of the rows to the experts, and collects the results.
      {"Tensors", 2, {"parallel.tp=2", "parallel.etp=1"}, for_each_pass(counts, 2)},
      {"Sequences", 2, {"parallel.tp=2", "parallel.etp=1", "parallel.sp=true"}, for_each_pass(counts, 2)},
      {"ExpertTensors", 2, {"parallel.tp=2", "parallel.etp=2"}, for_each_pass(counts, 2)},
      {"ExpertTensorsDirect",
       4,
       {"parallel.ep=2", "parallel.etp=2", "schedule.moe.esp_exchange=direct"},
       for_each_pass(counts)},
      {"Ring", 2, {"parallel.cp=2"}},
      {"Gathered", 2, {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
      {"Ulysses", 2, {"parallel.cp=2", "parallel.cp_kind=ulysses"}},
      {"RowsOfTokens", 2, {"parallel.ep=2", "schedule.moe.rows=token"}, for_each_pass(ids)},
      // The ids are read again to renumber the experts, because an expert is hot in each pass.
      {"Shadows",
       2,
       {"parallel.ep=2", "schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1"},
       {{counts, 2 * 4}, {ids, 2 * 2 * 4}}},
      {"MemoryLimit",
       2,
       {"parallel.ep=2", "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=1048576"},
       for_each_pass(counts)},
      {"MemoryReuse",
       2,
       {"parallel.ep=2", "schedule.moe.memory_reuse=s1", in_chunks, "schedule.moe.chunks=2"},
       for_each_pass(counts)},
      {"Chunks", 2, {"parallel.ep=2", in_chunks, "schedule.moe.chunks=2"}, for_each_pass(counts)},
      {"ChunksOfOneRank", 1, {in_chunks, "schedule.moe.chunks=2"}},
      {"Offload", 2, {"parallel.ep=2", "offload.activations=true", "offload.min_bytes=0"}, for_each_pass(counts)},
      {"Hierarchical", 4, {"parallel.ep=4", "schedule.moe.all_to_all=hierarchical"}, for_each_pass(counts)},
      {"Windows", 2, {"parallel.ep=2", "schedule.moe.all_to_all=window"}, for_each_pass(counts)},
      {"RecomputedNorms", 2, {"parallel.ep=2", "recompute=norms"}, for_each_pass(counts)},
      // A recomputed block is routed again.
      {"RecomputedBlocks", 2, {"parallel.ep=2", "recompute=block"}, for_each_pass(counts, 2)},
  };
}

class HostWaitsOfRanks : public testing::TestWithParam<Layout> {};

TEST_P(HostWaitsOfRanks, AreTheReadsListedInTheManual) {
  const auto& [name, ranks, overrides, routing] = GetParam();
  Counts expected = once_a_rank(ranks);
  expected.insert(routing.begin(), routing.end());
  const StepCounts found = second_step(ranks, overrides);
  print_row(name, ranks, found.waits);
  expect_reads(found, expected);
}

INSTANTIATE_TEST_SUITE_P(, HostWaitsOfRanks, testing::ValuesIn(layouts()), [](const auto& l) { return l.param.name; });

class MeasuredHostWaits : public testing::TestWithParam<Layout> {};

TEST_P(MeasuredHostWaits, IncludeOneMoreForTheClock) {
  expect_one_more_if_measured(GetParam().ranks, GetParam().overrides);
}

INSTANTIATE_TEST_SUITE_P(, MeasuredHostWaits,
                         testing::Values(Layout{"Experts", 2, {"parallel.ep=2"}},
                                         Layout{"Stages", 2, {"parallel.pp=2"}},
                                         Layout{"Zero3", 2, {"parallel.zero=3", "distributed.bucket_bytes=4096"}},
                                         Layout{"StagesOfExperts", 4, {"parallel.pp=2", "parallel.ep=2"}}),
                         [](const auto& l) { return l.param.name; });

// The least limit divides the tokens into many chunks. A pass tries smaller numbers of chunks first, and reads the
// counts for each of them. The number of these tries depends on the routing.
TEST(HostWaits, MemoryLimitReadsTheCountsForEachNumberOfChunks) {
  std::vector<std::string> overrides{"batch.global=4", "batch.micro=1", "parallel.ep=2",
                                     "schedule.moe.memory_reuse=s4"};
  const int64_t least = train::least_memory_limit(small_recipe(overrides), moe::ReuseStrategy::s4);
  overrides.push_back(base::cat("schedule.moe.memory_limit=", least));
  const StepCounts found = second_step(2, overrides);
  print_row("LeastMemoryLimit", 2, found.waits);
  Counts expected = once_a_rank(2);
  const int64_t tried = found.reads.at(counts);
  EXPECT_GT(tried, 2 * 4);
  EXPECT_LE(tried, 2 * 4 * 8) << "a micro-batch has 8 tokens, so at most 8 numbers of chunks are tried";
  expected[counts] = tried;
  expect_reads(found, expected);
}

// Evaluates 10 sequences, which are more than a pipeline has at once.
void evaluated(TrainingRun& run, const data::Source& source) {
  EXPECT_GT(evaluate(run.instance, run.recipe, source, 10, {}).loss, 0);
}

TEST(HostWaits, EvaluationReadsOneLossARank) {
  const StepCounts one = counts_of(1, {}, evaluated);
  print_row("Evaluation", 1, one.waits);
  expect_reads(one, {{"evaluation: loss", 1}});
  const StepCounts stages = counts_of(2, {"parallel.pp=2"}, evaluated);
  print_row("EvaluationOfStages", 2, stages.waits);
  expect_reads(stages, {{"evaluation: loss", 2}});
}

TEST(HostWaits, EvaluationOfExpertsReadsTheirCounts) {
  const StepCounts found = counts_of(2, {"parallel.ep=2"}, evaluated);
  print_row("EvaluationOfExperts", 2, found.waits);
  expect_reads(found, {{"evaluation: loss", 2}, {counts, 2 * 10}});
}

// Continues a prompt of two tokens by three tokens.
void generated(TrainingRun& run, const data::Source&) {
  const std::vector<int32_t> prompt{1, 2};
  EXPECT_EQ(train::generate(run.instance, prompt, {.max_tokens = 3, .temperature = 0}).size(), 3);
}

TEST(HostWaits, GenerationReadsTheLogitsOfEachToken) {
  const StepCounts one = counts_of(1, {}, generated);
  print_row("Generation", 1, one.waits);
  expect_reads(one, {{"generation: logits", 3}});
  const StepCounts experts = counts_of(2, {"parallel.ep=2"}, generated);
  print_row("GenerationOfExperts", 2, experts.waits);
  expect_reads(experts, {{"generation: logits", 2 * 3}, {counts, 2 * 2 * 3}});
}

}  // namespace
}  // namespace hexad::tests
