// Graphs of an MoE layer on the meta device, compared with the graphs of a real run.
#include "tools/plan/layer_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "framework/schedule/simulator.h"
#include "tests/training/training.h"
#include "tools/plan/rank_graphs.h"
#include "tools/train/model/pass_recorder.h"

namespace hexad::tests {

using namespace plan;
using namespace verify;

namespace {

using base::cat;
using schedule::Task;
using schedule::TaskGraph;
using train::PassRecorder;

using Overrides = std::vector<std::string>;

// Returns a recipe whose experts get the same number of rows in every chunk, as on the meta device.
Recipe recipe_with(Overrides overrides) {
  overrides.emplace_back("model.moe.routing=balanced");
  return small_recipe(overrides);
}

mesh::Layout layout_of(const Recipe& recipe, int ranks) { return {recipe.parallel.sizes(), ranks}; }

std::vector<TaskGraph> graphs_of_layer(const Recipe& recipe, int ranks, int rank, const std::vector<int>& nodes) {
  return LayerOnMeta(recipe, {}, layout_of(recipe, ranks), rank, nodes).work(recipe.schedule.moe.settled()).graphs;
}

std::vector<int> one_node(int ranks) { return std::vector<int>(ranks, 0); }

// Returns the graph of the first recorded pass of a kind, or an empty graph if no pass of this kind was recorded.
TaskGraph first_pass(const std::vector<PassRecorder::Recording>& passes, schedule::PassKind kind) {
  for (const PassRecorder::Recording& pass : passes)
    if (pass.name.kind == kind) return pass.graph;
  return {};
}

void expect_same(const TaskGraph& expected, const TaskGraph& actual) {
  EXPECT_EQ(expected.to_string(), actual.to_string());
  ASSERT_EQ(expected.tasks().size(), actual.tasks().size());
  for (size_t i = 0; i < expected.tasks().size(); ++i) {
    const Task &a = expected.tasks()[i], &b = actual.tasks()[i];
    SCOPED_TRACE(a.spec.name);
    EXPECT_EQ(a.spec.name, b.spec.name);
    EXPECT_EQ(a.spec.lane, b.spec.lane);
    EXPECT_EQ(a.spec.kind, b.spec.kind);
    EXPECT_EQ(a.spec.cost, b.spec.cost);
    EXPECT_EQ(a.after, b.after);
  }
}

void expect_same(const std::vector<TaskGraph>& expected, const std::vector<TaskGraph>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) expect_same(expected[i], actual[i]);
}

struct Case {
  std::string name;
  int ranks;
  Overrides overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LayerGraphsOfRuns : public testing::TestWithParam<Case> {};

TEST_P(LayerGraphsOfRuns, EqualTheRecordedGraphs) {
  const Recipe recipe = recipe_with(GetParam().overrides);
  on_ranks(GetParam().ranks, [&](const comm::ProcessGroup& world) {
    SCOPED_TRACE(cat("rank ", world.rank()));
    TrainingRun run(recipe, world);
    const PassRecorder recorder(run.instance);
    run.step(documents_of(recipe));
    const auto graphs = graphs_of_layer(recipe, world.size(), world.rank(), world.node_of_rank());
    ASSERT_GE(graphs.size(), 2u);
    size_t i = 0;
    for (const auto& [kind, name] : enum_names(schedule::PassKind{})) {
      SCOPED_TRACE(name);
      const TaskGraph recorded = first_pass(recorder.passes(), kind);
      EXPECT_EQ(recorded.tasks().empty(), i >= graphs.size());
      if (i < graphs.size()) expect_same(recorded, graphs[i]);
      ++i;
    }
  });
}

const Overrides chunks{"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"};
Overrides in_chunks(Overrides overrides) {
  overrides.insert(overrides.end(), chunks.begin(), chunks.end());
  return overrides;
}
const Case cases[] = {
    {"Ep2", 2, {"parallel.ep=2"}},
    {"Ep2Chunks", 2, in_chunks({"parallel.ep=2"})},
    {"Ep2Zero3", 2, {"parallel.ep=2", "parallel.zero=3"}},
    {"Ep2S4", 2, in_chunks({"parallel.ep=2", "schedule.moe.memory_reuse=s4"})},
    {"Ep2Shadow", 2, in_chunks({"parallel.ep=2", "schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1"})},
    {"Ep2Blocks", 2, in_chunks({"parallel.ep=2", "recompute=block"})},
    {"Ep2BlocksS4", 2, in_chunks({"parallel.ep=2", "recompute=block", "schedule.moe.memory_reuse=s4"})},
    {"Pp2Ep2", 4, in_chunks({"parallel.pp=2", "parallel.ep=2"})},
    {"Pp2Ep2DelayedWeights", 4, in_chunks({"parallel.pp=2", "parallel.ep=2", "schedule.pipeline.kind=zb_h1"})},
    {"Pp2Tp2DelayedWeights",
     4,
     {"parallel.pp=2", "parallel.tp=2", "schedule.moe.duplicates=drop", "schedule.pipeline.kind=zb_h1"}},
    {"Pp2Ep2DelayedWeightsOfV", 4, {"parallel.pp=2", "parallel.ep=2", "schedule.pipeline.kind=zb_v", "model.layers=4"}},
    {"Ep2Beside", 2, {"parallel.ep=2", "model.moe.shared_experts=1", "schedule.moe.shared=beside"}},
    {"Tp2Ep2Beside", 4, {"parallel.tp=2", "parallel.ep=2", "model.moe.shared_experts=1", "schedule.moe.shared=beside"}},
    {"Tp2Ep2", 4, {"parallel.tp=2", "parallel.ep=2"}},
    {"Tp2Ep2Chunks", 4, in_chunks({"parallel.tp=2", "parallel.ep=2"})},
    {"Tp2Ep2Drop", 4, in_chunks({"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop"})},
    {"Tp2SpEp2", 4, in_chunks({"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"})}};
INSTANTIATE_TEST_SUITE_P(, LayerGraphsOfRuns, testing::ValuesIn(cases), [](const auto& c) { return c.param.name; });

TEST(LayerGraphs, FollowTheSetSchedule) {
  const Recipe plain = recipe_with({"parallel.ep=2"}), cut = recipe_with(in_chunks({"parallel.ep=2"}));
  LayerOnMeta layer(plain, {}, layout_of(plain, 2), 0, one_node(2));
  for (const Recipe* recipe : {&plain, &cut, &plain})
    expect_same(graphs_of_layer(*recipe, 2, 0, one_node(2)), layer.work(recipe->schedule.moe.settled()).graphs);
}

LayerWork work_of(const Overrides& overrides, int ranks) {
  const Recipe recipe = recipe_with(overrides);
  return LayerOnMeta(recipe, {}, layout_of(recipe, ranks), 0, one_node(ranks)).work(recipe.schedule.moe.settled());
}

std::vector<schedule::Transfer> transfers_outside(const LayerWork& work) {
  std::vector<schedule::Transfer> all;
  for (const schedule::TaskSpec& task : work.outside)
    all.insert(all.end(), task.cost.transfers.begin(), task.cost.transfers.end());
  return all;
}

// For each chunk, a rank sends the counts of 4 experts as i64. It also sends the sum of all counts.
TEST(LayerWork, HasTheExchangeOfCountsOutsideOfTheGraphs) {
  using schedule::TaskKind;
  using schedule::Transfer;
  EXPECT_TRUE(transfers_outside(work_of({}, 1)).empty());
  EXPECT_EQ(transfers_outside(work_of({"parallel.ep=2"}, 2)),
            (std::vector<Transfer>{
                {.kind = TaskKind::all_gather, .wire_bytes = 8 * (4 + 1), .group = "ep", .group_size = 2}}));
  EXPECT_EQ(transfers_outside(work_of(in_chunks({"parallel.ep=2"}), 2)).front().wire_bytes, 8 * (2 * 4 + 1));
}

TEST(LayerWork, HasTheExchangesOfTheCapacityOutsideOfTheGraphs) {
  const auto plain = transfers_outside(work_of({"parallel.tp=2", "parallel.ep=2"}, 4)),
             dropping =
                 transfers_outside(work_of({"parallel.tp=2", "parallel.ep=2", "model.moe.capacity_factor=1"}, 4));
  ASSERT_EQ(dropping.size(), plain.size() + 2) << "ids and scores are gathered";
  EXPECT_EQ(dropping.front().group, "tp") << "the tp group has the ranks of the micro-batch";
}

// Sums of slot rows are a task if each tp rank sends a share of the tokens.
TEST(LayerWork, HasTheSumsOfSlotRowsOnce) {
  const auto outside = [](const LayerWork& work) {
    return std::ranges::count(work.outside, "permute.combine", &schedule::TaskSpec::name);
  };
  const auto tasks = [](const LayerWork& work) {
    int64_t n = 0;
    for (const TaskGraph& graph : work.graphs)
      for (const Task& task : graph.tasks()) n += task.spec.name == "combine.tokens" ? 1 : 0;
    return n;
  };
  const LayerWork after = work_of({"parallel.ep=2"}, 2),
                  inside = work_of({"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop"}, 4);
  EXPECT_EQ(outside(after), 2) << "in forward and in backward";
  EXPECT_EQ(tasks(after), 0);
  EXPECT_EQ(outside(inside), 0);
  EXPECT_EQ(tasks(inside), 2);
}

TEST(LayerWork, HasSharedExpertsInsideOrOutsideOfTheGraphs) {
  const auto flops = [](const LayerWork& work) {
    double in_graphs = 0, outside = 0;
    for (const TaskGraph& graph : work.graphs)
      for (const Task& task : graph.tasks()) in_graphs += task.spec.cost.flops;
    for (const schedule::TaskSpec& task : work.outside) outside += task.cost.flops;
    return std::pair(in_graphs, outside);
  };
  const Overrides shared{"parallel.ep=2", "model.moe.shared_experts=1"};
  Overrides with_task = shared;
  with_task.emplace_back("schedule.moe.shared=beside");
  const auto [after_inside, after_outside] = flops(work_of(shared, 2));
  const auto [beside_inside, beside_outside] = flops(work_of(with_task, 2));
  EXPECT_GT(after_outside, beside_outside);
  EXPECT_DOUBLE_EQ(after_inside + after_outside, beside_inside + beside_outside);
}

// The gradients of shared experts are reduced during the backward of their layer. Backward does not wait for these
// reductions.
TEST(LayerWork, HasNoReductionsOfGradients) {
  const Overrides shared{"parallel.ep=2", "model.moe.shared_experts=1", "distributed.bucket_bytes=1024"};
  for (const schedule::Transfer& transfer : transfers_outside(work_of(shared, 2)))
    EXPECT_EQ(transfer.kind, schedule::TaskKind::all_gather)
        << transfer.group << ", " << transfer.wire_bytes << " bytes";
}

TEST(LayerWork, OfARecomputedBlockHasOneForward) {
  const LayerWork kept = work_of({"parallel.ep=2"}, 2), recomputed = work_of({"parallel.ep=2", "recompute=block"}, 2);
  EXPECT_EQ(recomputed.graphs.size(), kept.graphs.size());
  EXPECT_EQ(transfers_outside(recomputed), transfers_outside(kept));
}

// All candidates of a choice run one after the other, with one log.
TEST(LayerWork, IsAllThatTheLogKeepsOfACall) {
  const Recipe recipe = recipe_with(in_chunks({"parallel.ep=2"}));
  LayerOnMeta layer(recipe, {}, layout_of(recipe, 2), 0, one_node(2));
  for (int call = 1; call <= 3; ++call) {
    SCOPED_TRACE(cat("call ", call));
    const size_t before = layer.logged();
    const LayerWork work = layer.work(recipe.schedule.moe.settled());
    EXPECT_FALSE(work.outside.empty());
    EXPECT_EQ(layer.logged() - before, work.outside.size());
  }
}

TEST(LayerWork, IsCompleteAfterACallThatFailedInForward) {
  const Recipe recipe = recipe_with(in_chunks({"parallel.ep=2"}));
  train::Extensions extensions;
  extensions.add_moe_order({"without_steps", [](size_t) { return std::vector<moe::IssueStep>{}; }});
  LayerOnMeta layer(recipe, extensions, layout_of(recipe, 2), 0, one_node(2));
  const moe::MoeSchedule legal = recipe.schedule.moe.settled();
  moe::MoeSchedule illegal = legal;
  illegal.order = "without_steps";
  EXPECT_THROW(layer.work(illegal), base::Error);
  const LayerWork work = layer.work(legal), expected = work_of(in_chunks({"parallel.ep=2"}), 2);
  expect_same(expected.graphs, work.graphs);
  EXPECT_EQ(work.outside.size(), expected.outside.size());
}

// The three products of a linear layer (forward, input gradients, weight gradients) have equal numbers of FLOPs. The
// kind of the pipeline has no effect with a single stage.
TEST(LayerWork, LeavesOutTheWeightGradientsThatThePipelineDelays) {
  const auto flops = [](Overrides overrides, int ranks) {
    for (const char* more : {"parallel.ep=2", "model.moe.shared_experts=1", "model.layers=4"})
      overrides.emplace_back(more);
    const LayerWork work = work_of(overrides, ranks);
    double in_graphs = 0, outside = 0;
    for (const TaskGraph& graph : work.graphs)
      for (const Task& task : graph.tasks()) in_graphs += task.spec.cost.flops;
    for (const schedule::TaskSpec& task : work.outside) outside += task.cost.flops;
    return std::pair(in_graphs, outside);
  };
  const auto [inside, outside] = flops({"parallel.pp=2"}, 4);
  for (const char* kind : {"zb_h1", "zb_v"}) {
    SCOPED_TRACE(kind);
    const std::string pipeline = cat("schedule.pipeline.kind=", kind);
    const auto [delayed_inside, delayed_outside] = flops({"parallel.pp=2", pipeline}, 4);
    EXPECT_DOUBLE_EQ(delayed_inside, inside * 2 / 3);
    EXPECT_NEAR(delayed_outside / outside, 2.0 / 3, 0.05) << "the shared experts";
    EXPECT_EQ(flops({pipeline}, 2), flops({}, 2));
  }
}

TEST(LayerGraphs, KnowTheNodesOfAPipelineStage) {
  const Recipe recipe = recipe_with({"parallel.pp=2", "parallel.ep=2"});
  const std::vector<int> nodes{0, 0, 0, 1};
  const LayerGraphs all(recipe, {}, layout_of(recipe, 4), nodes);
  EXPECT_EQ(all.class_of_rank(), (std::vector<size_t>{0, 0, 1, 1}));
  for (const int rank : {0, 1, 2, 3}) {
    int exchanges = 0;
    for (const TaskGraph& graph : graphs_of_layer(recipe, 4, rank, nodes))
      for (const Task& task : graph.tasks())
        if (task.spec.kind == schedule::TaskKind::all_to_all) {
          ++exchanges;
          EXPECT_EQ(task.spec.cost.crosses_nodes, rank >= 2);
        }
    EXPECT_GT(exchanges, 0) << "rank " << rank;
  }
}

TEST(LayerGraphs, AreSharedByRanksOfAClass) {
  const Recipe recipe = recipe_with({"parallel.ep=2"});
  const auto classes = [&](const std::vector<int>& nodes) {
    return LayerGraphs(recipe, {}, layout_of(recipe, 4), nodes).class_of_rank();
  };
  EXPECT_EQ(classes(one_node(4)), (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(classes({0, 0, 1, 1}), (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(classes({0, 0, 0, 1}), (std::vector<size_t>{0, 0, 1, 1}));
}

// The ranks of a micro-batch add up the choices of its tokens. Ranks 0 and 1 share a micro-batch, and ranks 2 and 3
// share another micro-batch.
TEST(LayerGraphs, DistinguishTheNodesOfAMicroBatch) {
  const Recipe recipe = recipe_with({"parallel.cp=2"});
  const auto classes = [&](const std::vector<int>& nodes) {
    return LayerGraphs(recipe, {}, layout_of(recipe, 4), nodes).class_of_rank();
  };
  EXPECT_EQ(classes(one_node(4)), (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(classes({0, 0, 0, 1}), (std::vector<size_t>{0, 0, 1, 1}));
}

// The ranks' shares of the slots are 0.1, 0.2, 0.6 and 0.1. In increasing order of shares, the ranks are 0, 3, 1 and 2.
// Rank 3 has the lower median, so it represents all ranks but rank 2.
TEST(LayerGraphs, SeparateTheBusiestRankOfAGivenLoad) {
  const Recipe recipe = recipe_with({"parallel.ep=4"});
  LayerGraphs all(recipe, {}, layout_of(recipe, 4), one_node(4), RoutingLoad(ExpertShares{{0.1, 0.2, 0.6, 0.1}}));
  EXPECT_EQ(all.class_of_rank(), (std::vector<size_t>{0, 0, 1, 0}));
  const std::vector<LayerWork> work = all.work(recipe.schedule.moe.settled());
  ASSERT_EQ(work.size(), 2u);
  const auto flops = [](const LayerWork& of_class) {
    double sum = 0;
    for (const TaskGraph& graph : of_class.graphs)
      for (const Task& task : graph.tasks()) sum += task.spec.cost.flops;
    return sum;
  };
  EXPECT_GT(flops(work[1]), 2 * flops(work[0]));
}

TEST(LayerGraphs, AreEmptyForAStageWithoutMoeLayer) {
  const Recipe recipe = recipe_with({"parallel.pp=2", "model.moe.dense_layers=1"});
  LayerGraphs all(recipe, {}, layout_of(recipe, 2), one_node(2));
  EXPECT_EQ(all.class_of_rank(), (std::vector<size_t>{0, 1}));
  const std::vector<LayerWork> work = all.work(recipe.schedule.moe.settled());
  ASSERT_EQ(work.size(), 2u);
  EXPECT_TRUE(work[0].graphs.empty());
  EXPECT_TRUE(work[0].outside.empty());
  EXPECT_EQ(work[1].graphs.size(), 2u);
}

// Ranks of one group issue the same collectives, as the simulator requires.
TEST(LayerGraphs, CanBeSimulatedTogether) {
  const Recipe recipe = recipe_with(in_chunks({"parallel.tp=2", "parallel.ep=2"}));
  const mesh::Layout layout = layout_of(recipe, 8);
  LayerGraphs all(recipe, {}, layout, one_node(8));
  const std::vector<LayerWork> of_class = all.work(recipe.schedule.moe.settled());
  std::vector<const TaskGraph*> forward;
  for (const size_t c : all.class_of_rank()) forward.push_back(of_class[c].graphs.data());
  ASSERT_EQ(forward.size(), 8u);
  for (const auto& timeline : simulate(forward, schedule::Rates::defaults(), rank_groups(layout, one_node(8))))
    EXPECT_GT(timeline.total(), 0);
}

}  // namespace
}  // namespace hexad::tests
