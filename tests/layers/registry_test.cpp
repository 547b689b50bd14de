// Layers and issue orders that a recipe chooses by name.
#include <gtest/gtest.h>

#include "layers/dense/linear.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

// A user's layer: y = factor * (weight x).
class Scaled final : public FeedForward {
 public:
  Scaled(const FeedForwardSpec& s, const Builder& b)
      : factor_(s.option("factor", 1)), linear_({s.model.hidden, s.model.hidden, s.model.init_std}, b / "linear") {}
  Value operator()(Tape& t, const Value& x, const ForwardContext&) const override {
    return scale(t, linear_(t, x), factor_);
  }
  FeedForwardWork work() const override { return {.products = 1}; }

 private:
  double factor_;
  Linear linear_;
};

Registry with_scaled() {
  Registry registry;
  registry.add_feed_forward("scaled", {.options = {"factor"}, .make = [](const FeedForwardSpec& s, const Builder& b) {
                                         return std::make_unique<Scaled>(s, b);
                                       }});
  return registry;
}

Recipe scaled_recipe(const std::vector<std::string>& overrides = {}) {
  std::string yaml = R"(
model: {layers: 2, hidden: 8, heads: 2, context: 8, vocab: 31, mlp: scaled}
batch: {global: 4, micro: 2}
train: {precision: f64}
data: {synthetic: true}
)";
  return load_recipe(config::parse(yaml, "test.yaml", overrides), with_scaled(), 0);
}

TEST(Registry, RegisteredLayerFillsTheFeedForwardSlotAndTrains) {
  const Recipe recipe = scaled_recipe();
  ModelInstance instance(recipe, with_scaled(), self);
  EXPECT_EQ(instance.parameters.find("layers.1.mlp.linear.weight").global_shape(), (Shape{8, 8}));
  optim::Optimizer optimizer(recipe.optim, instance.parameters);
  TrainStep step(recipe, instance, optimizer);
  const FixedSource source = documents_of(recipe);
  const double first = step.run(source, 0, 1, 1, 0.05).loss;
  for (int64_t s = 2; s <= 5; ++s) step.run(source, 0, s, s, 0.05);
  EXPECT_LT(step.run(source, 0, 6, 6, 0.05).loss, first);
}

TEST(Registry, OptionsComeFromTheRecipe) {
  const ModelConfig config = scaled_recipe({"model.mlp_options=[{name: factor, value: 2.5}]"}).model;
  const FeedForwardDeclaration declared{.options = {"factor", "other"}, .make = {}};
  const FeedForwardSpec spec{config, 0, 32, declared};
  EXPECT_EQ(spec.option("factor", 1), 2.5);
  EXPECT_EQ(spec.option("other", 7), 7);
  EXPECT_THROW(spec.option("third", 1), std::logic_error);
}

// The checks of options read only the recipe and create no layer.
TEST(Registry, RefusesUndeclaredOptions) {
  const auto refusal = [](const std::string& layer, const std::string& options) {
    return message_of(ExitCode::usage, [&] { scaled_recipe({"model.mlp=" + layer, "model.mlp_options=" + options}); });
  };
  EXPECT_EQ(refusal("scaled", "[{name: factor, value: 2}, {name: factr, value: 3}]"),
            "command line: model.mlp_options=[{name: factor, value: 2}, {name: factr, v...: "
            "model.mlp_options.1.name (factr) is not an option of the layer scaled; it has: factor");
  EXPECT_EQ(
      refusal("gelu", "[{name: exact, value: 1}]"),
      "command line: model.mlp_options=[{name: exact, value: 1}]: model.mlp_options.0.name (exact) is not an option "
      "of the layer gelu; it has none");
}

TEST(Registry, NamesItsLayers) {
  EXPECT_EQ(with_scaled().feed_forward_names(), (std::vector<std::string>{"gelu", "scaled", "swiglu"}));
  EXPECT_EQ(Registry().feed_forward("scaled"), nullptr);
}

TEST(Registry, RefusesADuplicateName) {
  Registry registry = with_scaled();
  EXPECT_THROW(registry.add_feed_forward("scaled", {}), std::logic_error);
  EXPECT_THROW(registry.add_feed_forward("swiglu", {}), std::logic_error);
  EXPECT_THROW(registry.add_moe_order({"returns_last", {}}), std::logic_error);
}

// Returns an order that issues one chunk at a time, the last chunk first, and then all weight gradients.
std::vector<moe::IssueStep> backwards(size_t chunks) {
  std::vector<moe::IssueStep> steps;
  for (size_t c = chunks; c-- > 0;)
    for (moe::Stage stage : {moe::Stage::dispatch, moe::Stage::compute, moe::Stage::combine})
      steps.push_back({stage, c});
  for (size_t c = 0; c < chunks; ++c) steps.push_back({moe::Stage::weight_gradients, c});
  return steps;
}

TEST(Registry, RegisteredOrderGivesIdenticalLosses) {
  Registry registry;
  registry.add_moe_order({"backwards", backwards});
  EXPECT_EQ(registry.moe_order_names(),
            (std::vector<std::string>{"alternating", "backwards", "returns_last", "weights_last"}));
  const std::string yaml = R"(
model: {layers: 2, hidden: 8, heads: 2, context: 8, vocab: 31, moe: {experts: 4, expert_hidden: 8}}
batch: {global: 4, micro: 2}
train: {precision: f64}
data: {synthetic: true}
schedule: {moe: {chunk_by: tokens, chunks: 3}}
)";
  const auto trained = [&](const std::string& order) {
    const std::vector<std::string> overrides{"schedule.moe.order=" + order};
    const Recipe recipe = load_recipe(config::parse(yaml, "test.yaml", overrides), registry, 0);
    ModelInstance instance(recipe, registry, self);
    optim::Optimizer optimizer(recipe.optim, instance.parameters);
    TrainStep step(recipe, instance, optimizer);
    const FixedSource source = documents_of(recipe);
    std::vector<double> losses;
    for (int64_t s = 1; s <= 4; ++s) losses.push_back(step.run(source, 0, s, s, 0.05).loss);
    return losses;
  };
  EXPECT_EQ(trained("backwards"), trained("alternating"));
}

TEST(Registry, RefusalOfAnIllegalOrderNamesTheStep) {
  Registry registry;
  registry.add_moe_order({"hasty", [](size_t chunks) {
                            auto steps = moe::alternating_order().steps(chunks);
                            std::swap(steps[0], steps[2]);
                            return steps;
                          }});
  const std::string yaml =
      "model: {vocab: 31, moe: {experts: 4}}\ndata: {synthetic: true}\n"
      "schedule:\n  moe: {chunk_by: tokens, chunks: 3, order: hasty}\n";
  EXPECT_EQ(message_of(ExitCode::usage, [&] { load_recipe(config::parse(yaml, "test.yaml"), registry, 0); }),
            "test.yaml:4: schedule.moe.order (hasty) is illegal for 3 chunks: step 1 is experts[0], but dispatch[0] "
            "must come before it");
}

}  // namespace
}  // namespace hexad::tests
