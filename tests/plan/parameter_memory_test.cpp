// The formulas of parameter memory, against hand counts and against the parameters that a model makes.
#include "tools/plan/parameter_memory.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"
#include "tools/plan/held_parameters.h"

namespace hexad::tests {
namespace {

using namespace plan;

using plan::kept_of;

constexpr plan::ParameterBytes f32_gradients{.weights = 2, .gradients = 4, .optimizer = 12};

TEST(ParameterMemory, DividesWhatTheLevelSays) {
  EXPECT_EQ(kept_of(f32_gradients, 0, 4).total(), 18);
  EXPECT_EQ(kept_of(f32_gradients, 1, 4).total(), 6 + 12 / 4.0);
  EXPECT_EQ(kept_of(f32_gradients, 2, 4).total(), 2 + 16 / 4.0);
  EXPECT_EQ(kept_of(f32_gradients, 3, 4).total(), 18 / 4.0);
  for (const int64_t level : {0, 1, 2, 3}) EXPECT_EQ(kept_of(f32_gradients, level, 1).total(), 18) << "alone";
  EXPECT_THROW(kept_of(f32_gradients, 4, 1), std::logic_error);
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class HeldParameters : public testing::TestWithParam<Case> {};

// Elements, and elements over sharers, of every rank.
TEST_P(HeldParameters, AreThoseOfTheModel) {
  const Recipe recipe = small_recipe(GetParam().overrides);
  on_ranks(GetParam().ranks, [&](const comm::ProcessGroup& world) {
    const ModelInstance instance(recipe, Registry(), world);
    int64_t elements = 0, accumulators = 0, counted = 0, counted_accumulators = 0;
    double shares = 0, counted_shares = 0;
    for (const auto& p : instance.parameters) {
      const int64_t n = p->shape().numel();
      elements += n;
      shares += static_cast<double>(n) / instance.mesh.reducers(p->placement()).size();
      if (p->dtype() != train::dtype_of(recipe.train.precision)) accumulators += n;
    }
    for (const auto& h : held_parameters(recipe, instance.mesh.layout(), world.rank())) {
      counted += h.elements;
      counted_shares += static_cast<double>(h.elements) / static_cast<double>(h.sharers);
      if (h.accumulator) counted_accumulators += h.elements;
    }
    EXPECT_EQ(counted, elements);
    EXPECT_EQ(counted_accumulators, accumulators);
    EXPECT_NEAR(counted_shares, shares, 1e-6 * shares);
  });
}

INSTANTIATE_TEST_SUITE_P(
    , HeldParameters,
    testing::Values(
        Case{"Alone", 1, {"train.precision=bf16"}}, Case{"Dense", 2, {"model.moe.experts=0", "model.bias=true"}},
        Case{"Experts", 4, {"parallel.ep=2", "train.precision=bf16", "model.bias=true"}},
        Case{"Tensors", 4, {"parallel.tp=4", "train.precision=bf16", "model.qk_norm=true", "model.bias=true"}},
        Case{"Sequences",
             4,
             {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2", "model.bias=true", "model.norm=layer_norm",
              "train.precision=bf16"}},
        Case{"ExpertTensors",
             4,
             {"parallel.etp=2", "parallel.ep=2", "model.bias=true", "train.precision=bf16",
              "model.moe.expert_hidden=7"}},
        Case{"Shared",
             2,
             {"model.moe.shared_experts=1", "model.moe.dense_residual=true", "parallel.tp=2", "train.precision=bf16"}},
        Case{"Stages", 4, {"parallel.pp=2", "train.precision=bf16"}},
        Case{"TiedStages",
             4,
             {"parallel.pp=2", "model.tied_embedding=true", "train.precision=bf16", "model.position=learned"}},
        Case{"Tied", 2, {"model.tied_embedding=true", "train.precision=bf16"}},
        Case{"Contexts", 4, {"parallel.cp=2", "train.precision=bf16"}}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
