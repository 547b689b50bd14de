// untrained() must warn of exactly the settings under which a parameter's gradient consists of rounding errors.

#include "tools/train/recipe/cautions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/training/training.h"
#include "tools/train/recipe/recipe_comparison.h"

namespace hexad::tests {

using namespace verify;
namespace {

struct Case {
  const char* name;
  std::vector<std::string> overrides;
  std::vector<std::string> parameters;  // parts of the names of parameters without a gradient
  const char* text;                     // part of the warning
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Untrained : public testing::TestWithParam<Case> {};

// Returns a recipe without auxiliary losses, so that gradients come only from the data.
Recipe recipe_of_case(const Case& c) {
  std::vector<std::string> overrides{"model.moe.aux_loss.coefficient=0", "optim.clip=0"};
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  return small_recipe(overrides);
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.to_vector<double>()) most = std::max(most, std::abs(x));
  return most;
}

TEST_P(Untrained, NamesParametersWithoutGradientBeyondRounding) {
  const Case& c = GetParam();
  const Recipe recipe = recipe_of_case(c);
  const FixedSource source = documents_of(recipe);
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const Trajectory t = trajectory(run, source, 1);
    const TensorMap& gradients = t.steps.front().gradients;
    double most = 0;
    for (const auto& [name, gradient] : gradients) most = std::max(most, largest(gradient));
    ASSERT_GT(most, 0);
    for (const auto& [name, gradient] : gradients) {
      const bool named = std::ranges::any_of(
          c.parameters, [&, &n = name](const std::string& part) { return n.find(part) != std::string::npos; });
      const double size = largest(gradient);
      EXPECT_EQ(size <= 1e-12 * most, named) << name << ": " << size << " of " << most;
    }
  });
  std::string all;
  for (const std::string& line : train::untrained(recipe)) all += line + "\n";
  if (*c.text)
    EXPECT_NE(all.find(c.text), std::string::npos) << all;
  else
    EXPECT_EQ(all, "");
  for (const std::string& line : train::untrained(recipe)) {
    const auto cautions = train::cautions(recipe);
    EXPECT_NE(std::ranges::find(cautions, line), cautions.end());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Untrained,
    testing::Values(
        Case{"TopTwo", {"model.moe.top_k=2"}, {}, ""},
        Case{"OneExpertNormalized",
             {"model.moe.top_k=1"},
             {"router"},
             "model.moe.normalize: false lets the router learn"},
        Case{"OneExpertBelowFloor", {"model.moe.top_k=1", "model.moe.normalize_floor=1"}, {}, ""},
        Case{"OneExpertAboveFloor",
             {"model.moe.top_k=1", "model.moe.normalize_floor=1e-12"},
             {"router"},
             "model.moe.normalize: false lets the router learn"},
        Case{"OneExpertAsItIs", {"model.moe.top_k=1", "model.moe.normalize=false"}, {}, ""},
        Case{"SigmoidNormalized",
             {"model.moe.top_k=1", "model.moe.score=sigmoid"},
             {"router"},
             "model.moe.normalize: false lets the router learn"},
        Case{"OnlyExpert",
             {"model.moe.experts=1", "model.moe.top_k=1", "model.moe.normalize=false"},
             {"router"},
             "model.moe.score: sigmoid"},
        Case{"OnlyExpertSigmoid",
             {"model.moe.experts=1", "model.moe.top_k=1", "model.moe.normalize=false", "model.moe.score=sigmoid"},
             {},
             ""},
        Case{"KeyBias",
             {"model.bias=true", "model.position=learned"},
             {"attention.k.bias"},
             "gives keys a bias (k.bias)"},
        Case{"OwnKeyBias",
             {"model.qkv_bias=true", "model.position=learned"},
             {"attention.k.bias"},
             "gives keys a bias (k.bias)"},
        Case{"BiasesExceptOfKeys", {"model.bias=true", "model.qkv_bias=false", "model.position=learned"}, {}, ""},
        Case{"KeyBiasRotary", {"model.bias=true"}, {}, ""}),
    [](const auto& param) { return param.param.name; });

TEST(Untrained, ReportsRoutersTrainedOnlyByAuxiliaryLosses) {
  const auto lines = train::untrained(small_recipe({"model.moe.top_k=1", "model.moe.aux_loss.coefficient=0.01"}));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("a gradient only from the auxiliary losses, none from the data"), std::string::npos)
      << lines[0];
}

TEST(Untrained, NamesContextsAndVocabulariesOfOne) {
  const auto line_of = [](const std::vector<std::string>& overrides) {
    std::string all;
    for (const std::string& line : train::untrained(small_recipe(overrides))) all += line;
    return all;
  };
  EXPECT_NE(line_of({"model.context=1"}).find("queries and keys (q, k) get no gradient"), std::string::npos);
  EXPECT_NE(line_of({"model.vocab=1"}).find("model.vocab: 1"), std::string::npos);
}

TEST(LearningRateJump, NamesBothValuesIfALongerRunRaisesTheCosine) {
  const Recipe before = small_recipe({"train.steps=100", "optim.lr=0.001", "optim.schedule=cosine"});
  const Recipe longer = small_recipe({"train.steps=400", "optim.lr=0.001", "optim.schedule=cosine"});
  const std::string text = train::learning_rate_jump(before, longer, 100);
  for (const char* part : {"the learning rate of step 101 is 0.00086", "would be 0.0001", "train.steps: 100 -> 400"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  EXPECT_EQ(train::learning_rate_jump(before, before, 50), "");
  EXPECT_EQ(train::learning_rate_jump(before, small_recipe({"train.steps=101", "optim.lr=0.001"}), 5), "");
  const Recipe faster = small_recipe({"train.steps=100", "optim.lr=0.002", "optim.schedule=cosine"});
  EXPECT_NE(train::learning_rate_jump(before, faster, 50).find("optim.lr: 0.001 -> 0.002"), std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
