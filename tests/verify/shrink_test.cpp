// Small models that keep the structure of large ones.
#include "tools/verify/shrink.h"

#include <gtest/gtest.h>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tests/verify/subject_of_recipe.h"
#include "tools/verify/selection.h"
#include "tools/verify/subject.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

constexpr const char* large_yaml = R"(
model:
  layers: 61
  hidden: 7168
  heads: 128
  kv_heads: 16
  context: 4096
  vocab: 129280
  qk_norm: true
  moe:
    dense_layers: 3
    experts: 256
    top_k: 8
    groups: 8
    top_groups: 4
    expert_hidden: 2048
    shared_experts: 1
    score: sigmoid
    bias_rate: 0.001
batch: {global: 4096, micro: 4}
parallel: {pp: 16, ep: 64}
data: {dataset: data/none}
)";

TEST(Shrink, RotatesAWholeNumberOfPairsOfSmallHeads) {
  const Shrunk s = shrink(completed(recipe_of(large_yaml, {"model.rotary_share=0.25"})), 8, registry);
  EXPECT_EQ(s.recipe.model.rotary_size(), 2);
  EXPECT_LT(s.recipe.model.rotary_size(), s.recipe.model.size_of_head());
}

TEST(Shrink, MakesLatentAttentionSmall) {
  const Shrunk s = shrink(completed(recipe_of(large_yaml, {"model.attention=latent", "model.kv_heads=128",
                                                           "model.qk_norm=none", "model.latent.q_rank=1536"})),
                          8, registry);
  const layers::LatentConfig& l = s.recipe.model.latent;
  EXPECT_TRUE(s.recipe.model.is_latent());
  EXPECT_EQ(s.recipe.model.heads, 8);
  EXPECT_EQ(l.q_rank, 6);
  EXPECT_EQ(l.kv_rank, 6);
  EXPECT_EQ(l.key_size(), 6);
  EXPECT_EQ(l.value_size, 4);
}

TEST(Shrink, KeepsLatentValuesWithinTheSizeOfKeys) {
  const Shrunk s =
      shrink(completed(recipe_of(large_yaml, {"model.attention=latent", "model.kv_heads=128", "model.qk_norm=none",
                                              "model.latent.nope_size=1", "model.latent.value_size=64"})),
             8, registry);
  EXPECT_EQ(s.recipe.model.latent.key_size(), 3);
  EXPECT_EQ(s.recipe.model.latent.value_size, 3);
}

TEST(Shrink, MakesDeltaNetsSmall) {
  const Shrunk s = shrink(completed(recipe_of(large_yaml, {"model.delta_net.heads=32", "model.delta_net.key_heads=16",
                                                           "model.full_attention_every=4"})),
                          8, registry);
  const layers::DeltaNetConfig& d = s.recipe.model.delta_net;
  EXPECT_EQ(d.heads, 16);
  EXPECT_EQ(d.number_of_key_heads(), 8);
  EXPECT_EQ(d.key_size, 4);
  EXPECT_EQ(d.conv_size, 2);
  EXPECT_TRUE(s.recipe.model.is_delta(0) && !s.recipe.model.is_delta(3));
}

TEST(Shrink, KeepsTheNumberOfPredictionBlocksBelowTheContext) {
  const Recipe large = completed(recipe_of(large_yaml, {"model.prediction_blocks=3"}));
  EXPECT_EQ(shrink(large, 1, registry).recipe.model.prediction_blocks, 1);
  EXPECT_EQ(shrink(large, 8, registry).recipe.model.prediction_blocks, 2);
}

TEST(Shrink, KeepsTheStructureOfTheModel) {
  const Recipe large = completed(recipe_of(large_yaml));
  const Shrunk s = shrink(large, 8, registry);
  const layers::ModelConfig& m = s.recipe.model;
  EXPECT_EQ(m.layers, 8);
  EXPECT_EQ(m.heads, 8);
  EXPECT_EQ(m.heads / m.key_value_heads(), 8);
  EXPECT_EQ(m.context, 16);
  EXPECT_EQ(m.moe.top_k, 8);
  EXPECT_EQ(m.moe.groups, 8);
  EXPECT_EQ(m.moe.experts, 16);
  EXPECT_EQ(m.moe.dense_layers, 3);
  EXPECT_EQ(m.qk_norm, layers::QkNorm::head);
  EXPECT_TRUE(s.recipe.data.synthetic);
  EXPECT_NE(std::find(s.changes.begin(), s.changes.end(), "model.hidden: 7168 -> 32"), s.changes.end());
  const Scratch scratch;
  const Subject subject(s.recipe, registry, 1, scratch.path());
  const Selection all = select(
      "all", 8, [&](const Variant& v) { return subject.illegal(v); }, 1);
  EXPECT_TRUE(all.text.starts_with("146 meshes of 8 ranks: 146 legal\n")) << all.text;
}

TEST(Shrink, KeepsThePatternsThatMatchTheSmallModel) {
  const auto patterns = [](const std::string& freeze) {
    return shrink(completed(recipe_of(large_yaml, {"optim.freeze=" + freeze})), 8, registry).recipe.optim.freeze;
  };
  EXPECT_EQ(patterns("[embedding.weight, layers.40.*, layers.1.*]"),
            (std::vector<std::string>{"embedding.weight", "layers.1.*"}));
  EXPECT_EQ(patterns("[\"layers.[0-9].*\", embedding.weight, head.weight, norm.weight]"), std::vector<std::string>());
}

TEST(Shrink, RaisesNoSize) {
  const Recipe small = completed(small_recipe());
  const Recipe again = shrink(small, 8, registry).recipe;
  EXPECT_EQ(again.model.hidden, small.model.hidden);
  EXPECT_EQ(again.model.layers, small.model.layers);
  EXPECT_EQ(again.model.context, small.model.context);
  EXPECT_EQ(again.model.moe.experts, small.model.moe.experts);
  EXPECT_EQ(again.batch.global, small.batch.global);
}

}  // namespace
}  // namespace hexad::tests
