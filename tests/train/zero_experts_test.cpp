// All ranks gather the weights of experts in the same order under ZeRO-3, even if the ranks have different rows and
// chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "framework/kernels/cpu/parallel.h"
#include "framework/schedule/executor.h"
#include "parallel/comm/thread_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace verify;
namespace {

using Words = std::vector<std::string>;

constexpr int steps = 2;
constexpr comm::ThreadOptions hang_fails{.node_of_rank = {}, .jitter = {}, .watchdog_seconds = 20};

Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Trains two steps on `ranks` ranks. Returns the trajectory on rank 0.
Trajectory run_under(const Words& words, int ranks) {
  const Recipe recipe = small_recipe(words);
  const FixedSource source = documents_of(recipe);
  Trajectory result;
  comm::with_ranks(
      ranks,
      [&](const comm::ProcessGroup& world) {
        kernels::cpu::set_thread_count(1);
        TrainingRun run(recipe, world);
        Trajectory t = trajectory(run, source, steps);
        if (world.rank() == 0) result = std::move(t);
      },
      hang_fails);
  return result;
}

// Expects bitwise equal runs at levels 0 and 3. Both levels round sums over ranks in the same way if each rank has one
// micro-batch.
void expect_bits_of_level_0(const Words& words, int ranks, int64_t unit_bytes) {
  SCOPED_TRACE(cat("units of ", unit_bytes, " bytes"));
  const auto at_level = [&](int64_t level) {
    return run_under(joined(words, {cat("parallel.zero=", level), cat("distributed.bucket_bytes=", unit_bytes)}),
                     ranks);
  };
  expect_bitwise(at_level(0), at_level(3));
}

// Ranks 0 and 1 share the experts, and ranks 2 and 3 have replicas of them. The tokens of ranks 0 and 1 choose none of
// the experts on rank 0. Rank 2 has the replicas of these experts, and gets rows of the tokens of ranks 2 and 3.
class Uneven {
 public:
  Uneven() {
    std::ofstream out(scratch_ / "routes");
    constexpr int tokens_of_two_ranks = 2 * 2 * 8;
    for (int t = 0; t < tokens_of_two_ranks; ++t) out << "2 3\n";
    for (int t = 0; t < tokens_of_two_ranks; ++t) out << (t % 4 == 0 ? "3 2\n" : "0 1\n");
  }
  Words words(const Words& more) const {
    return joined(
        {"parallel.ep=2", "batch.global=8", "model.moe.routing=trace", "model.moe.trace=" + scratch_ / "routes"}, more);
  }

 private:
  Scratch scratch_;
};

struct Case {
  std::string name;
  Words schedule, model{};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ExpertsWithoutRows : public testing::TestWithParam<Case> {};

// Ranks that call gathers in different orders would pair gathers of different units. With units of 1 byte
// (distributed.bucket_bytes), every parameter has its own gather. With larger units, wrongly paired gathers may even
// have equal sizes.
TEST_P(ExpertsWithoutRows, AreGatheredLikeTheirReplicas) {
  const Uneven uneven;
  const Words words = joined(uneven.words(GetParam().schedule), GetParam().model);
  for (const int64_t unit : {1, 4096, 100000000}) expect_bits_of_level_0(words, 4, unit);
}

const std::string moe = "schedule.moe.", reuse = moe + "memory_reuse=";
const Words shadow{moe + "hot_experts=shadow", moe + "hot_load=1"};
const Words biases{"model.bias=true"}, shared{"model.moe.shared_experts=1", moe + "shared=beside"};

INSTANTIATE_TEST_SUITE_P(, ExpertsWithoutRows,
                         testing::Values(Case{"Kept", {}}, Case{"KeptDense", {moe + "gemms=dense"}},
                                         Case{"KeptParts", {moe + "chunk_by=tokens", moe + "chunks=3"}, biases},
                                         Case{"S1", {reuse + "s1"}}, Case{"S2", {reuse + "s2"}},
                                         Case{"S3", {reuse + "s3"}}, Case{"S4", {reuse + "s4"}},
                                         Case{"S4Dense", {reuse + "s4", moe + "gemms=dense"}},
                                         Case{"S4Lanes", {reuse + "s4", "schedule.worker_lanes=true"}},
                                         Case{"S4Biases", {reuse + "s4"}, biases},
                                         Case{"S2Gelu", {reuse + "s2"}, joined(biases, {"model.moe.expert=gelu"})},
                                         Case{"S4Parts", {reuse + "s4", moe + "chunk_by=tokens", moe + "chunks=3"}},
                                         Case{"S4Shared", {reuse + "s4"}, shared}, Case{"Shadow", shadow, biases},
                                         Case{"ShadowS4", joined(shadow, {reuse + "s4"})},
                                         Case{"Blocks", {"recompute=block"}, biases},
                                         Case{"RowsOfTokens", {moe + "rows=token"}}),
                         [](const auto& c) { return c.param.name; });

// Both etp ranks hold the bias of the down product, but only one of these ranks adds the bias.
TEST(ExpertsInParts, UseABiasAddedByAnotherRank) {
  for (const char* strategy : {"none", "s1", "s4"}) {
    SCOPED_TRACE(strategy);
    const Words words{"parallel.etp=2", "model.bias=true", "batch.global=4", reuse + strategy};
    for (const int64_t unit : {1, 1024}) expect_bits_of_level_0(words, 2, unit);
  }
}

class ChunkCounter final : public schedule::GraphRunner {
 public:
  void run(const schedule::PassName&, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    const auto tasks = graph.tasks();
    most = std::max<int64_t>(most, std::count_if(tasks.begin(), tasks.end(), [](const schedule::Task& t) {
                               return t.spec.name.starts_with("experts");
                             }));
    schedule::execute(graph, context);
  }
  int64_t most = 0;
};

// Each group of ep ranks determines its number of chunks from its own routing.
TEST(ChunksOfALimit, MayDifferBetweenReplicas) {
  const Uneven uneven;
  const Words words = uneven.words({reuse + "s4", moe + "memory_limit=30000"});
  for (const int64_t unit : {1, 4096}) expect_bits_of_level_0(words, 4, unit);
  std::vector<int64_t> chunks(4);
  comm::with_ranks(
      4,
      [&](const comm::ProcessGroup& world) {
        kernels::cpu::set_thread_count(1);
        TrainingRun run(small_recipe(words), world);
        ChunkCounter counter;
        run.instance.run_passes_by(&counter);
        run.step(documents_of(run.recipe));
        chunks[world.rank()] = counter.most;
      },
      hang_fails);
  EXPECT_EQ(chunks[0], chunks[1]);
  EXPECT_EQ(chunks[2], chunks[3]);
  EXPECT_NE(chunks[0], chunks[2]) << "the routing must give the replicas different numbers of chunks";
}

}  // namespace
}  // namespace hexad::tests
