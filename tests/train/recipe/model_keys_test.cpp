// Keys of a model's attention, positions, delta nets, MLPs and prediction blocks that contradict each other are
// reported with the reason.
#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, HeadsMustDivideTheHiddenSizeAndHaveEvenSizes) {
  EXPECT_NE(problem({"model.heads=5"}).find("model.hidden (32) must be divisible by model.heads (5); nearest: 30, 35"),
            std::string::npos);
  EXPECT_EQ(problem({"model.kv_heads=3"}),
            "test.yaml:3: model.heads (4) must be divisible by model.kv_heads (3); nearest: 3, 6");
  EXPECT_EQ(problem({"model.head_size=7"}),
            "command line: model.head_size=7: model.head_size (7) gives heads of odd size 7; rotary positions need an "
            "even size");
  EXPECT_EQ(recipe_of(yaml, {"model.head_size=7", "model.position=learned"}).model.size_of_head(), 7);
}

TEST(Recipe, LatentAttentionRefusesKeysThatItDoesNotRead) {
  const auto latent = [](const char* key) { return problem({"model.attention=latent", key}); };
  EXPECT_EQ(latent("model.kv_heads=2"),
            "command line: model.kv_heads=2: model.kv_heads (2) must be auto or 4, the number of heads, for "
            "model.attention: latent");
  EXPECT_EQ(latent("model.qk_norm=head"),
            "command line: model.qk_norm=head: model.qk_norm (head) must be none for model.attention: latent");
  EXPECT_NE(latent("model.latent.rope_size=3")
                .find("must be even, because rotary positions rotate pairs of elements; nearest: 2, 4"),
            std::string::npos);
  EXPECT_NE(latent("model.latent.value_size=193").find("must be at most rope_size + nope_size (192)"),
            std::string::npos);
  EXPECT_NE(problem({"model.latent.kv_rank=64"}).find("is given, but model.attention is grouped"), std::string::npos);
  const ModelConfig m = recipe_of(yaml, {"model.attention=latent"}).model;
  EXPECT_EQ(m.size_of_head(), 192);
  EXPECT_EQ(m.rotary_size(), 64);
}

TEST(Recipe, PredictionBlocksNeedADecoderAndFurtherTokens) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  expect({"model.prediction_weight=0.1"}, "is given, but model.prediction_blocks is 0");
  expect({"model.prediction_blocks=1", "model.kind=encoder"}, "must be 0 for model.kind: encoder");
  expect({"model.prediction_blocks=100000"}, "must be below model.context (");
  expect({"model.prediction_blocks=1", "model.prediction_weight=0"},
         "model.prediction_weight (0) must be greater than 0");
  EXPECT_EQ(recipe_of(yaml, {"model.prediction_blocks=1", "model.prediction_weight=0.1"}).model.blocks(),
            recipe_of(yaml).model.layers + 1);
}

TEST(Recipe, RotaryPositionsRotateAWholeNumberOfPairs) {
  const auto wrong = [](const char* share) {
    return problem({"model.head_size=8", std::string("model.rotary_share=") + share});
  };
  EXPECT_TRUE(
      wrong("0.4").ends_with("model.rotary_share (0.4) gives 3.2 of the 8 dimensions of a head, but rotary "
                             "positions need an even number; nearest: 0.25, 0.5"))
      << wrong("0.4");
  EXPECT_TRUE(
      wrong("0.125").ends_with("gives 1 of the 8 dimensions of a head, but rotary positions need an even "
                               "number; nearest: 0.25"))
      << wrong("0.125");
  EXPECT_NE(wrong("1.5").find("model.rotary_share (1.5) must be at most 1"), std::string::npos) << wrong("1.5");
  EXPECT_EQ(recipe_of(yaml, {"model.head_size=48", "model.rotary_share=0.291667"}).model.rotary_size(), 14);
  for (const char* share : {"1", "0.75", "0.25"})
    EXPECT_NO_THROW(recipe_of(yaml, {"model.head_size=8", std::string("model.rotary_share=") + share})) << share;
  EXPECT_NO_THROW(recipe_of(yaml, {"model.head_size=8", "model.rotary_share=0.4", "model.position=learned"}));
}

TEST(Recipe, OnlyOneRuleMayScaleRotaryFrequencies) {
  const std::string two = problem({"model.rotary_scaling.kind=linear", "model.yarn.factor=4"});
  EXPECT_NE(two.find("model.rotary_scaling.kind (linear) must be none with model.yarn.factor (4)"), std::string::npos)
      << two;
  const std::string order = problem({"model.rotary_scaling.kind=llama3", "model.rotary_scaling.high_freq_factor=0.5"});
  EXPECT_NE(order.find("model.rotary_scaling.high_freq_factor (0.5) must be at least "
                       "model.rotary_scaling.low_freq_factor (1)"),
            std::string::npos)
      << order;
  const std::string lists = problem({"model.rotary_scaling.kind=longrope", "model.rotary_scaling.long_factors=[1, 2]"});
  for (const char* text : {"model.rotary_scaling.short_factors ([] by default) must have 4 numbers",
                           "model.rotary_scaling.long_factors ([1, 2]) must have 4 numbers"})
    EXPECT_NE(lists.find(text), std::string::npos) << lists;
  const std::string other = problem({"model.rotary_scaling.long_magnitude=2"});
  EXPECT_NE(other.find("model.rotary_scaling.kind (none by default) must be longrope for short_factors"),
            std::string::npos)
      << other;
  const std::string unread = problem({"model.rotary_scaling.factor=8"});
  EXPECT_NE(unread.find("model.rotary_scaling.factor (8) must be 1 for model.rotary_scaling.kind: none"),
            std::string::npos)
      << unread;
}

TEST(Recipe, WindowsNeedADecoderAndABlockThatReadsThem) {
  EXPECT_NO_THROW(recipe_of(yaml, {"model.window=16", "model.full_attention_every=2"}));
  EXPECT_NE(
      problem({"model.full_attention_every=2"}).find("model.full_attention_every (2) must be 0 without model.window,"),
      std::string::npos);
  EXPECT_NE(problem({"model.window=16", "model.full_attention_every=1"})
                .find("model.full_attention_every (1) must not be 1 with model.window (16)"),
            std::string::npos);
  EXPECT_NE(problem({"model.window=16", "model.kind=encoder", "data.mlm_probability=0.15"})
                .find("model.window (16) must be none for model.kind: encoder"),
            std::string::npos);
}

TEST(Recipe, KeysOfLlama4MustAgree) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  EXPECT_NO_THROW(recipe_of(yaml, {"model.attention_chunk=16", "model.full_attention_every=2",
                                   "model.no_rotary_every=2", "model.temperature.scale=0.1", "model.qk_norm=unit"}));
  expect({"model.attention_chunk=16", "model.window=8"},
         "model.attention_chunk (16) must be none with model.window (8)");
  expect({"model.attention_chunk=16", "model.kind=encoder", "data.mlm_probability=0.15"},
         "model.attention_chunk (16) must be none for model.kind: encoder");
  expect({"model.attention_chunk=16", "model.full_attention_every=1"}, "must not be 1 with model.attention_chunk (16)");
  expect({"model.no_rotary_every=1"}, "model.no_rotary_every (1) must not be 1");
  expect({"model.no_rotary_every=2", "model.position=learned"}, "model.no_rotary_every (2) must be 0");
  expect({"model.qk_norm=unit", "model.position=learned"}, "model.qk_norm (unit) must not be unit");
  expect({"model.temperature.scale=0.1"}, "model.temperature.scale (0.1) must be 0 for model.no_rotary_every: 0");
  expect({"model.moe.weigh=input", "model.moe.top_k=2"},
         "model.moe.weigh (input) must be output for model.moe.top_k (2)");
}

TEST(Recipe, DeltaNetsNeedADecoderWithoutWindowsAndChunks) {
  const std::vector<std::string> used{"model.delta_net.heads=4", "model.delta_net.conv_size=2"};
  const auto wrong = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = used;
    all.insert(all.end(), more.begin(), more.end());
    return problem(all);
  };
  EXPECT_NO_THROW(recipe_of(yaml, used));
  EXPECT_NO_THROW(recipe_of(yaml, {"model.delta_net.heads=4", "model.full_attention_every=4"}));
  EXPECT_NE(problem({"model.delta_net.key_size=64"}).find("model.delta_net.heads is 0; expected at least 1"),
            std::string::npos);
  EXPECT_NE(wrong({"model.window=16"}).find("model.window (16) must be none with delta nets"), std::string::npos);
  EXPECT_NE(wrong({"model.attention_chunk=16"}).find("model.attention_chunk (16) must be none with delta nets"),
            std::string::npos);
  EXPECT_NE(wrong({"model.delta_net.key_heads=3"}).find("model.delta_net.heads (4) must be divisible by"),
            std::string::npos);
  EXPECT_NE(
      wrong({"model.full_attention_every=1"}).find("model.full_attention_every (1) must not be 1 with delta nets"),
      std::string::npos);
  EXPECT_NE(wrong({"model.kind=encoder", "data.mlm_probability=0.15"})
                .find("model.delta_net.heads (4) must be 0 for model.kind: encoder"),
            std::string::npos);
  EXPECT_NE(problem({"model.norm=zero_centred_rms_norm", "model.qk_norm=all_heads"})
                .find("model.qk_norm (all_heads) must be none, head or unit for model.norm: zero_centred_rms_norm"),
            std::string::npos);
}

TEST(Recipe, SwigluLimitNeedsASwiglu) {
  EXPECT_NO_THROW(recipe_of(yaml, {"model.swiglu_limit=7", "model.mlp=gelu"}));
  const std::string none = problem({"model.swiglu_limit=7", "model.mlp=gelu", "model.moe.expert=gelu"});
  EXPECT_NE(none.find("model.swiglu_limit (7) must be none for a model without a SwiGLU"), std::string::npos) << none;
}

TEST(Recipe, QkNormAcceptsTrueAndFalse) {
  const auto norm = [](const char* word) { return recipe_of(yaml, {std::string("model.qk_norm=") + word}).model; };
  EXPECT_EQ(norm("true").qk_norm, layers::QkNorm::head);
  EXPECT_EQ(norm("false").qk_norm, layers::QkNorm::none);
  EXPECT_EQ(config::differences(norm("true"), norm("head")), std::vector<std::string>{});
  EXPECT_NE(config::write(norm("true")).find("qk_norm: head\n"), std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
