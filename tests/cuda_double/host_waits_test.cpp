// Waits of the host for the device in a training step. Every wait must be a named read (read_to_host) that the manual
// lists.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>

#include "framework/device/host_wait.h"
#include "parallel/comm/self_group.h"
#include "tests/support/cuda_double/host_waits.h"
#include "tests/training/training.h"
#include "tools/train/model/pass_recorder.h"

namespace hexad::tests {
namespace {

using verify::TrainingRun;

using Counts = std::map<std::string, int64_t>;

struct StepCounts {
  Counts waits, reads;  // sums over all ranks
};

// Returns the counts of the second step. The first step makes objects that later steps reuse. If `measured`, the MoE
// passes of the second step are recorded, and their times are read after the step.
StepCounts second_step(int ranks, std::vector<std::string> overrides, bool measured = false) {
  overrides.insert(overrides.end(), {"batch.global=4", "batch.micro=1"});
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
    {
      std::optional<train::PassRecorder> recorder;
      if (measured) recorder.emplace(run.instance);
      run.step(source);
      if (measured) {
        EXPECT_FALSE(recorder->passes().empty());
      }
    }
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

// Returns the reads of one step on `ranks` ranks, without the reads of routing counts.
Counts once_a_rank(int64_t ranks) {
  return {{"step: norm and loss", ranks}, {"step: router counts", ranks}, {"step: router losses", ranks}};
}

void expect_reads(const StepCounts& counts, const Counts& expected) {
  EXPECT_EQ(counts.reads, expected);
  EXPECT_EQ(counts.waits, expected) << "the host must wait exactly once for each read";
}

TEST(HostWaits, StepOfOneRankReadsNoRoutingCounts) { expect_reads(second_step(1, {}), once_a_rank(1)); }

// Expects that each rank waits once more if passes are measured, because the rank must relate the card's times to the
// host's times. In a slow step, a rank may wait twice instead of once, because the card's clock gets a new reference
// after 16 s.
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
  bool reads_counts;  // true if experts' groups have several ranks
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

class HostWaitsOfRanks : public testing::TestWithParam<Layout> {};

TEST_P(HostWaitsOfRanks, AreTheReadsListedInTheManual) {
  Counts expected = once_a_rank(GetParam().ranks);
  // Each of two MoE layers reads the counts once for each of four micro-batches.
  if (GetParam().reads_counts) expected["routing: counts"] = 2 * 4;
  expect_reads(second_step(GetParam().ranks, GetParam().overrides), expected);
}

TEST_P(HostWaitsOfRanks, IncludeOneMoreForTheClockIfPassesAreMeasured) {
  expect_one_more_if_measured(GetParam().ranks, GetParam().overrides);
}

INSTANTIATE_TEST_SUITE_P(
    , HostWaitsOfRanks,
    testing::Values(Layout{"Experts", 2, {"parallel.ep=2"}, true}, Layout{"Stages", 2, {"parallel.pp=2"}, false},
                    Layout{"Zero3", 2, {"parallel.zero=3", "distributed.bucket_bytes=4096"}, false},
                    Layout{"StagesOfExperts", 4, {"parallel.pp=2", "parallel.ep=2"}, true}),
    [](const auto& l) { return l.param.name; });

}  // namespace
}  // namespace hexad::tests
