// Memory of NCCL's connections on the meta device. At the start of a run, groups are connected for the operations of a
// step.
#include <gtest/gtest.h>

#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/memory_report.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::tests {

using namespace base;
namespace {

using namespace plan;

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Recipe on_cards(std::vector<std::string> overrides) {
  overrides.emplace_back("device=cuda");
  return small_recipe(overrides);
}

class Connections : public testing::TestWithParam<Case> {};

// A step would add memory if one of its operations needed a connection that its group did not have yet.
TEST_P(Connections, AreMadeBeforeTheFirstStep) {
  const auto& [name, ranks, overrides] = GetParam();
  const Recipe recipe = on_cards(overrides);
  const train::Extensions none;
  const mesh::Layout layout(recipe.parallel.sizes(), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(cat("rank ", rank));
    RunOnMeta run(recipe, none, layout, rank, RoutingLoad::even);
    const auto bytes = [&] {
      return run.instance().context.allocator()->stats().used_in(device::Category::connection);
    };
    const int64_t before = bytes();
    EXPECT_GT(before, 0);
    run.step(micro_batches_of(recipe, layout));
    EXPECT_EQ(bytes(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Connections,
    testing::Values(
        Case{"Experts", 4, {"parallel.ep=4"}}, Case{"Replicas", 4, {}},
        Case{"StagesOfExperts", 4, {"parallel.pp=2", "parallel.ep=2"}},
        Case{"Interleaved", 2, {"parallel.pp=2", "schedule.pipeline.kind=interleaved", "model.layers=4"}},
        Case{"Tied", 2, {"parallel.pp=2", "model.tied_embedding=true"}},
        Case{"Prediction",
             8,
             {"parallel.tp=2", "parallel.sp=true", "parallel.pp=2", "parallel.ep=2", "model.prediction_blocks=1"}},
        Case{"Dense", 2, {"parallel.tp=2", "model.moe.experts=0"}}, Case{"Tensors", 2, {"parallel.tp=2"}},
        Case{"Sequences", 2, {"parallel.tp=2", "parallel.sp=true"}},
        Case{"SequencesInStages", 8, {"parallel.tp=2", "parallel.sp=true", "parallel.pp=4", "model.layers=4"}},
        Case{"Drop", 4, {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop"}},
        Case{"DropInChunks",
             4,
             {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=2"}},
        Case{"DropInRestoredChunks",
             4,
             {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=2", "schedule.moe.memory_reuse=s4"}},
        Case{"AfterGate", 4, {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=pause_after_gate"}},
        Case{"Replicated", 4, {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=replicated"}},
        Case{"Baseline", 4, {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=baseline"}},
        Case{"EspDirect", 4, {"parallel.ep=2", "parallel.etp=2", "schedule.moe.esp_exchange=direct"}},
        Case{"Gather", 4, {"parallel.ep=2", "parallel.etp=2", "schedule.moe.esp_exchange=gather"}},
        Case{"Windows", 4, {"parallel.ep=4", "schedule.moe.all_to_all=window"}},
        Case{"Shadow", 4, {"parallel.ep=2", "schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1"}},
        Case{"Ring", 2, {"parallel.cp=2"}}, Case{"Gathered", 2, {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
        Case{"Ulysses", 2, {"parallel.cp=2", "parallel.cp_kind=ulysses"}},
        Case{"Capacity", 2, {"parallel.cp=2", "model.moe.capacity_factor=1", "model.moe.aux_loss.scope=sequence"}},
        Case{"ExpertsChoose",
             2,
             {"parallel.tp=2", "model.kind=encoder", "model.moe.router=expert_choice", "model.moe.capacity_factor=0.5",
              "model.moe.aux_loss.coefficient=0"}},
        Case{"ZeroOne", 2, {"parallel.zero=1"}}, Case{"ZeroTwo", 2, {"parallel.zero=2"}},
        Case{"ZeroThree", 4, {"parallel.zero=3", "parallel.ep=2"}},
        Case{"InRankOrder", 4, {"train.deterministic=true", "parallel.tp=2", "parallel.ep=2"}}),
    [](const auto& c) { return c.param.name; });

double connections_of(const Recipe& recipe, int64_t world) { return estimate_memory(recipe, {}, world).connections; }

TEST(ConnectionsOfARank, NeedMemoryOnlyForNcclOnSeveralRanks) {
  EXPECT_GT(connections_of(on_cards({"parallel.ep=2"}), 2), 0);
  EXPECT_EQ(connections_of(on_cards({}), 1), 0) << "a single rank has no connections";
  EXPECT_EQ(connections_of(on_cards({"parallel.ep=2", "distributed.device_collectives=host"}), 2), 0);
  EXPECT_EQ(connections_of(small_recipe({"parallel.ep=2"}), 2), 0) << "ranks on a CPU do not use NCCL";
}

TEST(ConnectionsOfARank, BelongToTheTotalAndToTheLimit) {
  const Recipe with = on_cards({"parallel.ep=2"});
  const Recipe without = on_cards({"parallel.ep=2", "distributed.device_collectives=host"});
  const MemoryEstimate a = estimate_memory(with, {}, 2), b = estimate_memory(without, {}, 2);
  EXPECT_EQ(a.total, b.total + a.connections);
  EXPECT_EQ(a.blocks, b.blocks + a.connections);
  EXPECT_EQ(a.temporary, b.temporary);
}

TEST(ConnectionsOfARank, HaveARowInTheReport) {
  const train::Extensions none;
  EXPECT_NE(MemoryReport(on_cards({"parallel.ep=2"}), none, 2).table().find("\n  connections "), std::string::npos);
  EXPECT_EQ(MemoryReport(small_recipe({"parallel.ep=2"}), none, 2).table().find("connections"), std::string::npos);
}

// In a group inside one node, a rank uses all channels to each peer. In a group on several nodes, a rank uses at most
// two channels to each peer on its own node. All peers on other nodes share one buffer per direction.
TEST(ConnectionsOfARank, FollowTheNodes) {
  const Recipe node = on_cards({"parallel.ep=8", "model.moe.experts=16", "batch.global=32"});
  const Recipe nodes = on_cards({"parallel.ep=16", "model.moe.experts=16", "batch.global=32"});
  EXPECT_GT(connections_of(node, 16), 1344.0 * (1 << 20)) << "16 channels to each of 7 peers take 12 MiB each";
  EXPECT_LT(connections_of(nodes, 16), connections_of(node, 16));
}

}  // namespace
}  // namespace hexad::tests
