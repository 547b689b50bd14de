// Predicted order of the schedules of MoE layers, for recipes in which keys of schedule.moe are auto.
#include "tools/plan/schedule_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <span>

#include "tests/plan/schedule_choices.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/cluster.h"
#include "tools/plan/layer_graphs.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

TEST(ScheduleChoice, SlowAllToAllSendsEveryTokenOnce) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.trial_share=0"});
  schedule::Rates rates = machine(1e-6, 1e9, 1e12);
  for (const auto& [group, size] : {std::pair{"ep", 2}, {"experts", 4}})
    rates.links.push_back({schedule::TaskKind::all_to_all, group, size, false, schedule::TimeCurve::linear(1e-6, 1e6)});
  const auto order = predicted_on(rates, recipe);
  ASSERT_FALSE(order.empty());
  EXPECT_TRUE(order.front().divides()) << to_string(order.front());
  EXPECT_FALSE(order.back().divides()) << to_string(order.back());
}

TEST(ScheduleChoice, DependsOnLatencyAndBandwidth) {
  const Recipe recipe = open_recipe({"parallel.ep=4"}, {"schedule.moe.trial_share=0"});
  // Transfers take as long as the experts, so transfers and experts can overlap well in chunks.
  const double flops = 1e9;
  const auto balanced = predicted_on(machine(1e-9, 2e8, flops), recipe);
  EXPECT_TRUE(balanced.front().is_chunked()) << to_string(balanced.front());
  // Latency dominates the time of a message, and every further chunk adds the latency of a message.
  const auto slow_to_start = predicted_on(machine(1e-2, 1e12, flops), recipe);
  EXPECT_FALSE(slow_to_start.front().is_chunked()) << to_string(slow_to_start.front());
}

TEST(ScheduleChoice, DependsOnTheRateOfDenseProducts) {
  const auto best = [](double dense_flops) {
    schedule::Rates rates = machine(1e-6, 1e9, 1e9);
    rates.dense.fill(schedule::TimeCurve::linear(1e-7, dense_flops));
    const Recipe recipe = small_recipe({"parallel.ep=2", "batch.global=8", "schedule.moe.gemms=auto",
                                        "schedule.moe.dense_rows=1", "schedule.moe.trial_share=0"});
    return predicted_on(rates, recipe).front().gemms;
  };
  EXPECT_EQ(best(2e9), moe::Gemms::by_load);
  EXPECT_EQ(best(5e8), moe::Gemms::grouped);
}

// Dense products are slow, so grouped products, the default, are predicted to be faster with every number of chunks.
// Transfers take as long as the experts, and messages have almost no latency. More chunks than the default's two are
// therefore predicted to be faster.
TEST(ScheduleChoice, DefaultScheduleReplacesTheFinalistOfItsFamily) {
  const Recipe recipe =
      small_recipe({"parallel.ep=2", "model.context=32", "train.steps=100", "schedule.moe.gemms=auto",
                    "schedule.moe.dense_rows=1", "schedule.moe.chunk_by=tokens", "schedule.moe.trial_share=0.5"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = machine(1e-9, 2e8, 1e9);
    predictor.rates.dense.fill(schedule::TimeCurve::linear(1e-7, 5e8));
    ScheduleChoice choice(recipe, run.instance, predictor, world);
    const MoeSchedule usual = recipe.schedule.moe.settled(), fastest = choice.candidates()[0].schedule;
    ASSERT_EQ(fastest.gemms, usual.gemms);
    ASSERT_NE(fastest.chunks, usual.chunks);
    const auto tried = try_all(
        choice, [](const MoeSchedule&) { return 1.0; }, 4);
    ASSERT_EQ(tried.size(), 4u) << "two steps of each of two finalists";
    EXPECT_EQ(std::ranges::count(tried, usual), 2);
    EXPECT_EQ(std::ranges::count(tried, moe::Gemms::by_load, &MoeSchedule::gemms), 2)
        << "the other family keeps its finalist";
  });
}

// A rank selects its share of the tokens before or after the gate. Both choices result in the same work under sequence
// parallelism.
TEST(ScheduleChoice, HasOneCandidateForEqualWorkAndKeepsTheRecipesSchedule) {
  const Recipe recipe = small_recipe({"parallel.tp=2", "parallel.sp=true", "schedule.moe.duplicates=auto"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const auto allowed = legal(recipe);
    const auto candidates =
        predicted_schedules(recipe, Registry(), Predictor(recipe, run.instance.mesh), world, allowed);
    std::set<std::string> work;
    for (const ScheduleCandidate& c : candidates) EXPECT_TRUE(work.insert(c.work).second) << to_string(c.schedule);
    EXPECT_LT(candidates.size(), allowed.size());
    EXPECT_EQ(std::ranges::count(candidates, recipe.schedule.moe.settled(), &ScheduleCandidate::schedule), 1);
  });
}

// Parm's S1 (`pause_before_gate`) and S2 (`pause_after_gate`) gather the same number of tokens after the experts in
// forward. In backward, S2 also gathers the gradients of the routing weights, which are small. With one chunk, S2 does
// the same work as `drop`, so only `drop` is a candidate.
TEST(ScheduleChoice, PredictsParmsS1AndS2AlikeIfTheySendTheSameBytes) {
  const Recipe recipe = small_recipe(
      {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=auto", "schedule.moe.esp_exchange=direct"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = machine(0, 1e6, 1e12);
    std::map<Duplicates, double> seconds;
    for (const ScheduleCandidate& c : predicted_schedules(recipe, Registry(), predictor, world, legal(recipe)))
      seconds[c.schedule.duplicates] = c.predicted;
    ASSERT_TRUE(seconds.contains(Duplicates::pause_before_gate) && seconds.contains(Duplicates::drop));
    EXPECT_FALSE(seconds.contains(Duplicates::pause_after_gate));
    EXPECT_NEAR(seconds[Duplicates::drop] / seconds[Duplicates::pause_before_gate], 1, 0.05);
  });
}

// Returns the seconds that slow transfers add to the predicted layer. Each transfer of this kind in the group of two
// ranks begins `latency` seconds later.
double seconds_of_latency(double latency, const Recipe& recipe, const comm::ProcessGroup& world,
                          schedule::TaskKind kind, const std::string& group) {
  TrainingRun run(recipe, world);
  Predictor predictor(recipe, run.instance.mesh);
  const auto predicted = [&](double of_link) {
    predictor.rates = machine(0, 1e12, 1e12);
    predictor.rates.links.push_back({kind, group, 2, false, schedule::TimeCurve::linear(of_link, 1e12)});
    return predicted_schedule(recipe, Registry(), predictor, world, recipe.schedule.moe.settled()).predicted;
  };
  return predicted(latency) - predicted(0);
}

TEST(ScheduleChoice, PredictionsIncludeTheExchangeOfCounts) {
  const Recipe recipe = small_recipe({"parallel.ep=2"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    EXPECT_NEAR(seconds_of_latency(10, recipe, world, schedule::TaskKind::all_gather, "ep"), 10, 1e-6);
  });
}

// Shared experts beside the all-to-all sum their results over the tp ranks under tensor parallelism.
TEST(ScheduleChoice, PredictionsOfSharedExpertsIncludeTheirTensorParallelTransfers) {
  const Recipe recipe = small_recipe({"parallel.tp=2", "model.moe.shared_experts=1", "schedule.moe.shared=beside"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const auto sums = [](const std::vector<schedule::Transfer>& transfers) {
      int64_t n = 0;
      for (const schedule::Transfer& t : transfers)
        n += t.kind == schedule::TaskKind::all_reduce && t.wire_bytes > 0 ? t.times : 0;
      return n;
    };
    const LayerWork work = LayerOnMeta(recipe, {}, mesh::Layout(recipe.parallel.sizes(), 2), world.rank(), {0, 0})
                               .work(recipe.schedule.moe.settled());
    int64_t inside = 0, outside = 0;  // sums inside the task shared_experts, and outside of the graphs
    for (const schedule::TaskGraph& graph : work.graphs)
      for (const schedule::Task& task : graph.tasks())
        if (task.spec.name == "shared_experts") inside += sums(task.spec.cost.transfers);
    for (const schedule::TaskSpec& task : work.outside) outside += sums(task.cost.transfers);
    EXPECT_GE(inside, 2) << "one in forward and one in backward";
    EXPECT_GE(seconds_of_latency(10, recipe, world, schedule::TaskKind::all_reduce, "tp"),
              10 * static_cast<double>(inside + outside) - 1e-3);
  });
}

// Returns the prediction on `cluster` for four ranks on two nodes. The ep group has all ranks. Each tp x cp group has
// the ranks of a node. These ranks gather ids and scores to find the tokens that exceed the capacity.
ScheduleCandidate predicted_with_capacity(const plan::Cluster& cluster) {
  const Scratch folder;
  std::ofstream(folder / "cluster.yaml") << plan::to_yaml(cluster);
  const Recipe recipe = small_recipe(
      {"parallel.cp=2", "parallel.ep=4", "model.moe.capacity_factor=1", "schedule.profile=" + folder / "cluster.yaml"});
  ScheduleCandidate predicted;
  on_ranks(4,
           [&](const comm::ProcessGroup& world) {
             TrainingRun run(recipe, world);
             const Predictor predictor(recipe, run.instance.mesh);
             const ScheduleCandidate mine =
                 predicted_schedule(recipe, Registry(), predictor, world, recipe.schedule.moe.settled());
             if (world.rank() == 0) predicted = mine;
           },
           {.node_of_rank = {0, 0, 1, 1}});
  return predicted;
}

TEST(ScheduleChoice, PredictionsUseMeasuredLinksOfContextParallelGroups) {
  const plan::Cluster plain = plan::default_cluster(2, 2);
  plan::Cluster slow = plain;
  for (plan::MeasuredLink& link : slow.links)
    if (link.operation == plan::Collective::all_gather && link.group == plan::GroupKind::intra)
      for (plan::Curve::Point& point : link.points.points) point.y *= 10;
  const ScheduleCandidate usual = predicted_with_capacity(plain), slower = predicted_with_capacity(slow);
  const double first = schedule::Rates::defaults().other_links->within_node.seconds(4096);
  EXPECT_TRUE(usual.assumed_links.empty()) << *usual.assumed_links.begin();
  EXPECT_GE(slower.predicted - usual.predicted, 9 * first * (1 - 1e-6)) << "a gather takes ten times as long";
}

TEST(ScheduleChoice, PredictionsNameTheLinksThatTheyAssume) {
  const ScheduleCandidate predicted = predicted_with_capacity(plan::default_cluster(4, 1));  // no link within a node
  const auto links = assumed_links(std::span(&predicted, 1));
  ASSERT_FALSE(links.empty());
  EXPECT_EQ(std::ranges::count(links, "all_gather of tp x cp, 2 ranks, within a node"), 1);
  for (const std::string& link : links) EXPECT_TRUE(link.ends_with(" of tp x cp, 2 ranks, within a node")) << link;
}

// Ranks 0 and 1 are an ep group on one node. Ranks 2 and 3 are an ep group on two nodes. Every rank predicts the times
// of all ranks.
TEST(ScheduleChoice, EveryRankHasTheMeasuredLinksOfAllGroups) {
  const Scratch folder;
  std::ofstream(folder / "cluster.yaml") << plan::to_yaml(plan::default_cluster(2, 2));
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.profile=" + folder / "cluster.yaml"});
  on_ranks(4,
           [&](const comm::ProcessGroup& world) {
             const mesh::Mesh mesh(world, recipe.parallel.sizes());
             const Predictor predictor(recipe, mesh);
             for (const bool crosses_nodes : {false, true})
               EXPECT_TRUE(predictor.rates.find(schedule::TaskKind::all_to_all, "ep", 2, crosses_nodes))
                   << "rank " << world.rank() << (crosses_nodes ? ", between nodes" : ", within a node");
           },
           {.node_of_rank = {0, 0, 0, 1}});
}

// The first ep group has three ranks on each of two nodes. The second ep group has two ranks on each of three nodes.
TEST(ScheduleChoice, EveryRankHasTheMeasuredLinksOfAllLevels) {
  const Scratch folder;
  std::ofstream(folder / "cluster.yaml") << plan::to_yaml(plan::default_cluster(5, 3));
  const Recipe recipe =
      small_recipe({"parallel.ep=6", "model.moe.experts=6", "batch.global=12", "schedule.moe.all_to_all=hierarchical",
                    "schedule.profile=" + folder / "cluster.yaml"});
  on_ranks(12,
           [&](const comm::ProcessGroup& world) {
             const mesh::Mesh mesh(world, recipe.parallel.sizes());
             const Predictor predictor(recipe, mesh);
             for (const std::string group : {"ep", "experts"})
               for (const int size : {2, 3}) {
                 const auto has = [&](const std::string& level, bool crosses_nodes) {
                   return predictor.rates.find(schedule::TaskKind::all_to_all, group + level, size, crosses_nodes);
                 };
                 EXPECT_TRUE(has("_inside", false)) << "rank " << world.rank() << ", " << group << ", " << size;
                 EXPECT_TRUE(has("_across", true)) << "rank " << world.rank() << ", " << group << ", " << size;
               }
           },
           {.node_of_rank = {0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4}});
}

TEST(ScheduleChoice, PricesHundredsOfSchedulesInTwoRounds) {
  // There are many tokens, so the share of tokens with both experts on one rank is close to its expected value.
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2", "model.context=128"},
                                    {"schedule.moe.rows=auto", "schedule.moe.order=auto",
                                     "schedule.moe.memory_reuse=auto", "schedule.moe.trial_share=0"});
  EXPECT_GT(legal(recipe).size(), 500u);
  const auto order = predicted_on(machine(1e-6, 1e6, 1e12), recipe);
  EXPECT_LT(order.size(), 350u);
  EXPECT_EQ(distinct(order, [](const MoeSchedule& s) { return to_string(s); }).size(), order.size());
  EXPECT_EQ(order.front().rows, ep::RowOf::token)
      << "a slow link favours fewer rows, but the best schedule is: " << to_string(order.front());
}

TEST(ScheduleChoice, PredictionsChangeNoBitOfTheRun) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.memory_reuse=none"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), chosen(recipe, world);
    ScheduleChoice choice(recipe, chosen.instance, Predictor(recipe, chosen.instance.mesh), world);
    chosen.instance.reschedule(recipe.schedule.moe.settled());
    expect_bitwise(trajectory(plain, source, 2), trajectory(chosen, source, 2));
  });
}

TEST(ScheduleChoice, EveryEligibleScheduleGivesTheSameLosses) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  ASSERT_GT(legal(recipe).size(), 1u);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), trying(recipe, world);
    for (const MoeSchedule& s : legal(recipe)) {
      trying.instance.reschedule(s);
      const double expected = plain.step(source).loss, loss = trying.step(source).loss;
      EXPECT_NEAR(loss, expected, 1e-10 * std::abs(expected)) << to_string(s);
    }
  });
}

}  // namespace
}  // namespace hexad::tests
