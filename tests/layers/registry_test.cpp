// Layers that a recipe chooses by name.
#include <gtest/gtest.h>

#include "layers/linear.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

const comm::SelfGroup self;

// A user's layer: y = factor * (weight x).
class Scaled final : public FeedForward {
 public:
  Scaled(const FeedForwardSpec& s, const Builder& b)
      : factor_(s.option("factor", 1)), linear_({s.model.hidden, s.model.hidden, s.model.init_std}, b / "linear") {}
  Value operator()(Tape& t, const Value& x, const Pass&) const override { return scale(t, linear_(t, x), factor_); }

 private:
  double factor_;
  Linear linear_;
};

Registry with_scaled() {
  Registry registry;
  registry.add_feed_forward("scaled",
                            [](const FeedForwardSpec& s, const Builder& b) { return std::make_unique<Scaled>(s, b); });
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

TEST(Registry, ARegisteredLayerFillsTheFeedForwardSlotAndTrains) {
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
  const FeedForwardSpec spec{config, 0, 32};
  EXPECT_EQ(spec.option("factor", 1), 2.5);
  EXPECT_EQ(spec.option("other", 7), 7);
}

TEST(Registry, NamesItsLayers) {
  EXPECT_EQ(with_scaled().feed_forward_names(), (std::vector<std::string>{"gelu", "scaled", "swiglu"}));
  EXPECT_EQ(Registry().feed_forward("scaled"), nullptr);
}

TEST(Registry, RefusesANameTwice) {
  Registry registry = with_scaled();
  EXPECT_THROW(registry.add_feed_forward("scaled", {}), std::logic_error);
  EXPECT_THROW(registry.add_feed_forward("swiglu", {}), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
