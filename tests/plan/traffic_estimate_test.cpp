// Traffic counted by groups on a meta device, compared with traffic metered in real runs.
#include "tools/plan/traffic_estimate.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using namespace verify;
namespace {

using namespace plan;

using comm::TrafficClass;

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Returns the recipe of a case. By default, its experts are evenly loaded, as the estimate assumes.
Recipe measured(const Case& c) {
  std::vector<std::string> all{"model.hidden=64",
                               "model.layers=4",
                               "model.context=32",
                               "model.vocab=128",
                               "model.moe.routing=balanced",
                               "model.moe.expert_hidden=96",
                               "batch.micro=1",
                               "train.precision=f32"};
  all.insert(all.end(), c.overrides.begin(), c.overrides.end());
  return small_recipe(all);
}

// Returns the bytes that every rank sent in a step, by class.
std::vector<TrafficEstimate> measure(const Recipe& recipe, int ranks) {
  std::vector<TrafficEstimate> sent(ranks);
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const FixedSource source = documents_of(run.recipe);
    run.step(source);
    // A rank's count of sent bytes is complete once all ranks have reached this point.
    const auto meet = [&] { world.barrier(run.instance.context.compute()).wait(); };
    TrafficEstimate& mine = sent[world.rank()];
    const auto take = [&] {
      for (int c = 0; c < comm::traffic_class_count; ++c)
        mine.bytes[c] = static_cast<double>(world.take(static_cast<TrafficClass>(c)).bytes);
    };
    meet();
    take();
    run.step(source);
    meet();
    take();
  });
  return sent;
}

constexpr TrafficClass estimated[] = {TrafficClass::tp, TrafficClass::ep, TrafficClass::pp, TrafficClass::cp,
                                      TrafficClass::dp};

class Traffic : public testing::TestWithParam<Case> {};

TEST_P(Traffic, IsWithinOnePercentOfTheEstimateForEveryRank) {
  const Recipe recipe = measured(GetParam());
  const mesh::Layout layout(recipe.parallel.sizes(), GetParam().ranks);
  const auto sent = measure(recipe, GetParam().ranks);
  for (int rank = 0; rank < layout.world(); ++rank) {
    const TrafficEstimate predicted = estimate_traffic(recipe, {}, layout, rank);
    for (TrafficClass c : estimated) {
      const double counted = sent[rank][c];
      EXPECT_NEAR(counted, predicted[c], 0.01 * predicted[c]) << name_of(c) << " of rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Traffic,
    testing::Values(
        Case{"One", 1, {}}, Case{"Tensors", 2, {"parallel.tp=2"}},
        Case{"TensorsAndSequences", 2, {"parallel.tp=2", "parallel.sp=true"}},
        Case{"Residuals", 2, {"parallel.tp=2", "model.moe.dense_residual=true", "model.moe.shared_experts=1"}},
        Case{"DenseBf16", 2, {"parallel.tp=2", "model.moe.experts=0", "train.precision=bf16"}},
        Case{"Experts", 4, {"parallel.ep=4"}},
        Case{"ExpertsOverTensors", 4, {"parallel.tp=4", "parallel.etp=1", "parallel.ep=4"}},
        Case{"ExpertTensors", 4, {"parallel.ep=2", "parallel.etp=2"}},
        Case{"Ring", 4, {"parallel.cp=2", "parallel.ep=2"}},
        Case{"Gathered", 2, {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
        Case{"Ulysses", 4, {"parallel.cp=4", "parallel.cp_kind=ulysses"}},
        Case{"Pipeline", 2, {"parallel.pp=2", "schedule.pipeline.kind=1f1b", "model.tied_embedding=true"}},
        Case{"PredictingStages", 2, {"parallel.pp=2", "model.prediction_blocks=1"}},
        Case{"Vee", 2, {"parallel.pp=2", "schedule.pipeline.kind=zb_v"}}, Case{"States", 2, {"parallel.zero=1"}},
        Case{"Gradients", 2, {"parallel.zero=2"}},
        Case{"Zero3", 2, {"parallel.zero=3", "model.layers=6", "distributed.bucket_bytes=65536"}},
        Case{"Zero3OfManyMicroBatches",
             2,
             {"parallel.zero=3", "model.layers=6", "distributed.bucket_bytes=262144", "batch.global=64"}},
        Case{"Zero3OfRecomputedBlocks",
             2,
             {"parallel.zero=3", "model.layers=6", "distributed.bucket_bytes=16384", "batch.global=32",
              "recompute=block"}},
        Case{"RowsOfTokens", 2, {"parallel.ep=2", "schedule.moe.rows=token"}},
        Case{"Fp8", 2, {"parallel.ep=2", "schedule.moe.wire=fp8"}},
        Case{"ExpertsChoose",
             2,
             {"parallel.cp=2", "model.kind=encoder", "model.moe.router=expert_choice", "model.moe.capacity_factor=0.5",
              "model.moe.aux_loss.coefficient=0", "model.moe.routing=model"}},
        Case{"RecomputedAttention", 4, {"parallel.tp=2", "parallel.cp=2", "recompute=attention"}},
        Case{"RecomputedBlocks",
             4,
             {"parallel.tp=2", "parallel.ep=2", "recompute=block", "model.moe.capacity_factor=2"}},
        Case{"Everything",
             8,
             {"parallel.pp=2", "parallel.tp=2", "parallel.sp=true", "parallel.cp=2", "parallel.ep=2",
              "parallel.zero=1"}}),
    [](const auto& i) { return i.param.name; });

// All experts of a group are on one rank. A token is sent to this rank once if two of its experts are in one group.
TEST(TrafficOfGroups, IsLowerWhenTokensChooseFewGroups) {
  const auto sent = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{"parallel.ep=8", "schedule.moe.rows=token", "model.moe.experts=16",
                                 "model.moe.routing=model", "model.moe.aux_loss.coefficient=0"};
    all.insert(all.end(), more.begin(), more.end());
    const Recipe recipe = measured({"", 8, all});
    return estimate_traffic(recipe, {}, mesh::Layout(recipe.parallel.sizes(), 8), 0)[TrafficClass::ep];
  };
  EXPECT_LT(sent({"model.moe.groups=8", "model.moe.top_groups=1"}), 0.6 * sent({}));
}

}  // namespace
}  // namespace hexad::tests
