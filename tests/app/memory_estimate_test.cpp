// What `hexad validate` predicts, next to what the allocator counts.
#include "tools/hexad/memory_estimate.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using device::Category;

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Large enough that the activations of layers outweigh what is small and left out.
std::vector<std::string> measured(const std::vector<std::string>& more) {
  std::vector<std::string> all{"model.hidden=64",
                               "model.layers=4",
                               "model.context=64",
                               "model.vocab=151",
                               "model.moe.routing=balanced",
                               "model.moe.expert_hidden=96",
                               "model.mlp_hidden=96",
                               "batch.micro=4",
                               "train.precision=f32"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class MemoryEstimate : public testing::TestWithParam<Case> {};

// The peaks of a step, on rank 0.
device::MemoryStats measure(const Recipe& recipe, int ranks) {
  device::MemoryStats memory;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const FixedSource source = documents_of(run.recipe);
    run.step(source);
    run.instance.context.allocator()->reset_peaks();
    run.step(source);
    if (world.rank() == 0) memory = run.instance.context.allocator()->stats();
  });
  return memory;
}

void expect_near(const device::MemoryStats& memory, Category c, double predicted, double share) {
  const auto counted = static_cast<double>(memory.peak_in(c));
  if (predicted == 0)
    EXPECT_EQ(counted, 0) << name_of(c);
  else
    EXPECT_NEAR(counted / predicted, 1, share) << name_of(c) << ": counted " << counted << ", predicted " << predicted;
}

constexpr double close_share = 0.01;

TEST_P(MemoryEstimate, IsWhatIsCounted) {
  const Recipe recipe = small_recipe(measured(GetParam().overrides));
  const auto memory = measure(recipe, 1);
  const auto estimate = estimate_memory(recipe, 1);
  expect_near(memory, Category::parameter, estimate.weights, close_share);
  expect_near(memory, Category::gradient, estimate.gradients, close_share);
  expect_near(memory, Category::optimizer, estimate.optimizer, close_share);
  expect_near(memory, Category::activation, estimate.activations, 0.3);
}

struct Layout {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

class LayoutMemory : public testing::TestWithParam<std::tuple<Layout, int, std::string>> {};

TEST_P(LayoutMemory, OfWeightsGradientsAndOptimizerIsWithinOnePercentOfTheFormula) {
  const auto& [layout, zero, precision] = GetParam();
  std::vector<std::string> all{"model.hidden=128",
                               "model.vocab=251",
                               "batch.micro=1",
                               "batch.global=4",
                               "model.context=16",
                               cat("parallel.zero=", zero),
                               "train.precision=" + precision};
  all.insert(all.end(), layout.overrides.begin(), layout.overrides.end());
  const Recipe recipe = small_recipe(measured(all));
  const auto memory = measure(recipe, layout.ranks);
  const auto estimate = estimate_memory(recipe, mesh::Layout(recipe.parallel.sizes(), layout.ranks), 0);
  expect_near(memory, Category::parameter, estimate.weights, close_share);
  expect_near(memory, Category::gradient, estimate.gradients, close_share);
  expect_near(memory, Category::optimizer, estimate.optimizer, close_share);
}

INSTANTIATE_TEST_SUITE_P(, LayoutMemory,
                         testing::Combine(testing::Values(Layout{"Two", 2, {}}, Layout{"Experts", 4, {"parallel.ep=2"}},
                                                          Layout{"Tensors", 4, {"parallel.tp=2", "parallel.sp=true"}}),
                                          testing::Values(0, 1, 2, 3), testing::Values("f32", "bf16")),
                         [](const auto& i) {
                           return cat(std::get<0>(i.param).name, "Zero", std::get<1>(i.param), "_",
                                      std::get<2>(i.param));
                         });

INSTANTIATE_TEST_SUITE_P(
    , MemoryEstimate,
    testing::Values(Case{"Kept", {}}, Case{"Norms", {"recompute=norms"}}, Case{"Attention", {"recompute=attention"}},
                    Case{"Blocks", {"recompute=block"}}, Case{"Bf16", {"train.precision=bf16"}},
                    Case{"Sgd", {"optim.kind=sgd"}}, Case{"Dense", {"model.moe.experts=0"}},
                    Case{"SharedExpertsAndResidual", {"model.moe.shared_experts=1", "model.moe.dense_residual=true"}}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
