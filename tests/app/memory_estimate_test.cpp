// What `hexad validate` predicts, next to what the allocator counts.
#include "tools/hexad/memory_estimate.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
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

TEST_P(MemoryEstimate, IsWhatIsCounted) {
  const comm::SelfGroup self;
  TrainingRun run(small_recipe(measured(GetParam().overrides)), self);
  const FixedSource source = documents_of(run.recipe);
  run.step(source);
  run.instance.context.allocator()->reset_peaks();
  run.step(source);
  const auto memory = run.instance.context.allocator()->stats();
  const auto estimate = estimate_memory(run.recipe);
  const auto near = [&](Category c, double predicted, double share) {
    const auto counted = static_cast<double>(memory.peak_in(c));
    EXPECT_NEAR(counted / predicted, 1, share) << name_of(c) << ": counted " << counted << ", predicted " << predicted;
  };
  near(Category::parameter, estimate.weights, 0.1);  // and tables of angles
  near(Category::gradient, estimate.gradients, 0.02);
  if (estimate.optimizer > 0) near(Category::optimizer, estimate.optimizer, 0.02);
  near(Category::activation, estimate.activations, 0.3);
}

INSTANTIATE_TEST_SUITE_P(
    , MemoryEstimate,
    testing::Values(Case{"Kept", {}}, Case{"Norms", {"recompute=norms"}}, Case{"Attention", {"recompute=attention"}},
                    Case{"Blocks", {"recompute=block"}}, Case{"Bf16", {"train.precision=bf16"}},
                    Case{"Sgd", {"optim.kind=sgd"}}, Case{"Dense", {"model.moe.experts=0"}},
                    Case{"SharedExpertsAndResidual", {"model.moe.shared_experts=1", "model.moe.dense_residual=true"}}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
