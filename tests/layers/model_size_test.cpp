// Compares parameters and operations counted on a meta device with published numbers and hand counts.
#include "layers/model_size.h"

#include <gtest/gtest.h>

#include "layers/dense/mlp.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

ModelSize size_of_recipe(const std::string& path) {
  return model_size(load_recipe(config::load(HEXAD_SOURCE_DIR "/recipes/" + path), Registry(), 0).model, Registry());
}

TEST(ModelSize, Mixtral8x7bHasThePublishedParameters) {
  const ModelSize s = size_of_recipe("models/mixtral-8x7b.yaml");
  EXPECT_EQ(s.parameters, 46'702'792'704);
  EXPECT_EQ(s.active_parameters, 12'879'925'248);
}

TEST(ModelSize, DbrxHasThePublishedParameters) {
  EXPECT_EQ(size_of_recipe("models/dbrx.yaml").parameters, 131'596'523'520);
}

// Counts that a model's authors published, in billions. `digit` is the allowed difference, except that totals above 100
// may differ by 2. `outside` is the number of active parameters that the authors do not count: the embedding or, for
// GLM-4.5-Air, the embedding and the head.
struct Published {
  std::string recipe;
  double total, active, digit;
  int64_t outside = 0;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.recipe; }

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasThePublishedParameters) {
  const Published& p = GetParam();
  const ModelSize s = size_of_recipe("models/" + p.recipe + ".yaml");
  EXPECT_NEAR(static_cast<double>(s.parameters) / 1e9, p.total, p.total > 100 ? 2 : p.digit);
  EXPECT_NEAR(static_cast<double>(s.active_parameters - p.outside) / 1e9, p.active, p.digit);
}

// The recipes name the sources of these numbers.
INSTANTIATE_TEST_SUITE_P(, PublishedModel,
                         testing::Values(Published{"mixtral-8x22b", 141, 39, 0.5}, Published{"olmoe", 6.9, 1.3, 0.05},
                                         Published{"qwen3-30b-a3b", 30.5, 3.3, 0.06},
                                         Published{"qwen3-235b-a22b", 235, 22, 0.5},
                                         Published{"glm-4.5-air", 106, 12, 0.5, 2 * int64_t{151'552} * 4096},
                                         Published{"llama-4-scout", 107.8, 17.2, 0.06},
                                         Published{"phi-3.5-moe", 41.9, 6.6, 0.06}, Published{"arctic", 480, 17, 0.5},
                                         Published{"dbrx", 132, 36, 0.5}, Published{"deepseek-v2", 236, 21, 0.5},
                                         Published{"deepseek-v2-lite", 15.7, 2.4, 0.06, int64_t{102'400} * 2048},
                                         Published{"kimi-k2", 1026, 32, 1},
                                         Published{"gpt-oss-20b", 20.9, 3.6, 0.06, int64_t{201'088} * 2880},
                                         Published{"gpt-oss-120b", 117, 5.1, 0.06, int64_t{201'088} * 2880}),
                         [](const auto& i) {
                           std::string name = i.param.recipe;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

// The authors count 109 billion parameters with the vision encoder, which this recipe lacks.
TEST(ModelSize, Llama4ScoutHasTheParametersOfItsTextPart) {
  EXPECT_EQ(size_of_recipe("models/llama-4-scout.yaml").parameters, 107'769'861'120);
}

TEST(ModelSize, Qwen3AndOlmoeHaveEveryParameterOfTheirPublishedWeights) {
  EXPECT_EQ(size_of_recipe("models/qwen3-30b-a3b.yaml").parameters, 30'532'122'624);
  EXPECT_EQ(size_of_recipe("models/qwen3-235b-a22b.yaml").parameters, 235'093'634'560);
  EXPECT_EQ(size_of_recipe("models/olmoe.yaml").parameters, 6'919'161'856);
}

// The published counts are 57 and 14 billion parameters, rounded.
TEST(ModelSize, ParametersOfQwen2EqualTheHandCount) {
  const ModelSize s = size_of_recipe("models/qwen2-57b-a14b.yaml");
  // Attention has q and output of 3584 columns, k and v of 512, and biases of q, k and v.
  const int64_t d = 3584, attention = 2 * d * d + 2 * d * 512 + d + 2 * 512, expert = 3 * d * 2560,
                shared = 3 * d * 20'480 + d;
  EXPECT_EQ(s.parameters, 2 * 151'936 * d + 28 * (attention + 64 * expert + shared + 64 * d + 2 * d) + d);
  EXPECT_EQ(s.active_parameters, s.parameters - 28 * 56 * expert);
}

// The papers publish only the sizes of experts.
TEST(ModelSize, ModelsOfMpmoeAndParmHaveThePapersExperts) {
  const auto experts = [](const std::string& recipe, int64_t layers, int64_t count, int64_t hidden, int64_t width) {
    EXPECT_EQ(size_of_recipe("models/" + recipe + ".yaml").expert_parameters,
              layers * count * (2 * hidden * width + hidden + width))
        << recipe;
  };
  experts("moe-gpt-s", 12, 64, 768, 3072);
  experts("moe-gpt-xl", 24, 64, 2048, 8192);
  experts("moe-bert-l", 24, 64, 1024, 4096);
  experts("bert-base-moe", 12, 2, 768, 3072);
  experts("gpt-2-moe", 12, 2, 768, 3072);
}

TEST(ModelSize, ModelsWithLatentAttentionHaveThePublishedParameters) {
  EXPECT_EQ(size_of_recipe("models/deepseek-v2-lite.yaml").parameters, 15'706'484'224);
  EXPECT_EQ(size_of_recipe("models/deepseek-v2.yaml").parameters, 235'741'434'880);
  const ModelSize v3 = size_of_recipe("models/deepseek-v3.yaml");
  // The published number contains the selection biases, which are states in this program.
  EXPECT_EQ(v3.parameters + 58 * 256, 671'026'419'200);
  EXPECT_EQ(v3.active_parameters, 37'552'282'624);
  EXPECT_EQ(size_of_recipe("models/kimi-k2.yaml").parameters, 1'026'408'209'408);
}

TEST(ModelSize, ParametersOfThePredictionBlockOfDeepSeekV3EqualTheHandCount) {
  ModelConfig c = load_recipe(config::load(HEXAD_SOURCE_DIR "/recipes/models/deepseek-v3.yaml"), Registry(), 0).model;
  const int64_t without = parameter_counts(c, Registry()).parameters;
  c.prediction_blocks = 1;
  const int64_t block = parameter_counts(c, Registry()).parameters - without;
  // Attention has q_down, q_up, kv_down, k_rope, k_up, v_up, output and two norms of compressed vectors. The rest of
  // the block has two norms of the residual stream, the router, 257 experts of three matrices, the projection, and
  // three more norms.
  const int64_t d = 7168, attention = d * 1536 + 1536 * 128 * 192 + d * (512 + 64) + 2 * 512 * 128 * 128 +
                                      128 * 128 * d + 1536 + 512;
  EXPECT_EQ(block, attention + 2 * d + 256 * d + 257 * 3 * d * 2048 + 2 * d * d + 3 * d);
}

TEST(ModelSize, FlopsOfAPredictionBlockEqualTheHandCount) {
  const auto flops = [](const char* blocks) {
    return model_size(small_recipe({std::string("model.prediction_blocks=") + blocks}).model, Registry())
        .flops_per_token;
  };
  // A prediction block has a layer as in FlopsOfATokenOfASmallModelEqualTheHandCount, and a projection of 16 x 32
  // weights. Each prediction block also computes logits with the head, 16 x 31 weights.
  const double layer = 2 * 256 + 2 * 128 + 64 + 2 * 3 * 16 * 12;
  EXPECT_DOUBLE_EQ(flops("2") - flops("0"), 2 * (6 * (layer + 16 * 32 + 16 * 31) + 12 * 16 * 4.0));
}

TEST(ModelSize, GptOssHasThePublishedParameters) {
  EXPECT_EQ(size_of_recipe("models/gpt-oss-20b.yaml").parameters, 20'914'757'184);
  EXPECT_EQ(size_of_recipe("models/gpt-oss-120b.yaml").parameters, 116'829'156'672);
}

// The published count is 80 billion, rounded. The count of active parameters includes the embedding and the head.
TEST(ModelSize, ParametersOfQwen3NextEqualTheHandCount) {
  const ModelSize s = size_of_recipe("models/qwen3-next-80b-a3b.yaml");
  // A delta net has
  // - q and k, 2048 columns each
  // - v, gate and output, 4096 columns each
  // - decay and write, 32 columns each
  // - filters of 4 taps for 8192 columns, two numbers for each of 32 heads, and a norm of 128 elements
  // Attention has
  // - q, gate and output, 4096 columns each
  // - k and v, 512 columns each
  // - two norms of 256 elements
  const int64_t d = 2048, delta = 2 * d * 2048 + 3 * d * 4096 + 2 * d * 32 + 8192 * 4 + 2 * 32 + 128,
                attention = 3 * d * 4096 + 2 * d * 512 + 2 * 256, experts = 513 * 3 * d * 512 + 512 * d + d;
  EXPECT_EQ(s.parameters, 2 * 151'936 * d + 36 * delta + 12 * attention + 48 * (experts + 2 * d) + d);
  EXPECT_NEAR(static_cast<double>(s.parameters) / 1e9, 80, 0.5);
  EXPECT_EQ(s.active_parameters, s.parameters - 48 * 502 * 3 * d * 512);
}

TEST(ModelSize, FlopsOfATokenOfMixtralEqualTheHandCount) {
  // In a layer, a token is multiplied by
  // - q and output, 4096 x 4096 each
  // - k and v, 4096 x 1024 each
  // - the router, 4096 x 8
  // - two of the eight experts, which have three matrices of 4096 x 14336 each
  // The head is 4096 x 32000. The embedding takes no operations, because it is a table lookup.
  const double layer = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 4096.0 * 8 + 2 * 3.0 * 4096 * 14336;
  const double products = 32 * layer + 4096.0 * 32000;
  // In causal attention, a token sees half of the 32768 keys on average. For each element (4096) and key, the scores
  // take 2 operations, and the sum of values takes 2 operations. Forward has these operations once, backward twice.
  const double attention = 32 * 3 * 2 * 2 * 4096.0 * 16384;
  EXPECT_DOUBLE_EQ(size_of_recipe("models/mixtral-8x7b.yaml").flops_per_token, 6 * products + attention);
}

TEST(ModelSize, FlopsOfATokenOfASmallModelEqualTheHandCount) {
  // The hidden size is 16. There are 4 query heads and 2 key heads, of 4 elements each. In a layer, a token is
  // multiplied by
  // - q and output, 256 weights each
  // - k and v, 128 weights each
  // - the router, 64 weights
  // - 2 experts, 3 x 16 x 12 weights each
  const double layer = 2 * 256 + 2 * 128 + 64 + 2 * 3 * 16 * 12;
  const double expected = 6 * (2 * layer + 16 * 31) + 2 * 12 * 16 * 4.0;
  EXPECT_DOUBLE_EQ(model_size(small_recipe().model, Registry()).flops_per_token, expected);
  // An encoder's query sees every key, not half of them.
  EXPECT_DOUBLE_EQ(model_size(small_recipe({"model.kind=encoder"}).model, Registry()).flops_per_token,
                   expected + 2 * 12 * 16 * 4.0);
  // A query sees 3 keys on average instead of 4 if its window has 4 of the 8 tokens.
  EXPECT_DOUBLE_EQ(model_size(small_recipe({"model.window=4"}).model, Registry()).flops_per_token,
                   expected - 2 * 12 * 16);
  EXPECT_DOUBLE_EQ(
      model_size(small_recipe({"model.window=4", "model.full_attention_every=2"}).model, Registry()).flops_per_token,
      expected - 12 * 16);
}

// There are 2 key heads of 3, so q and k have 16 x 6 weights each. There are 4 value heads of 5, so v, gate and output
// have 16 x 20 weights each.
TEST(ModelSize, DeltaNetsCountProjectionsAndTheProductsOfTheRule) {
  const auto size = [](const char* heads) {
    return model_size(
        small_recipe({"model.full_attention_every=2", "model.delta_net.key_heads=2", "model.delta_net.key_size=3",
                      "model.delta_net.value_size=5", std::string("model.delta_net.heads=") + heads})
            .model,
        Registry());
  };
  const ModelSize four = size("4"), eight = size("8");
  const double projections = 16 * (2 * 6 + 3 * 20 + 2 * 4), more = 16 * (3 * 20 + 2 * 4);
  const double attention = 6 * (2 * 256 + 2 * 128) + 12 * 16 * 4.0;
  EXPECT_DOUBLE_EQ(four.flops_per_token, model_size(small_recipe().model, Registry()).flops_per_token - attention +
                                             6 * projections + 18 * 3 * 5 * 4);
  EXPECT_DOUBLE_EQ(eight.flops_per_token - four.flops_per_token, 6 * more + 18 * 3 * 5 * 4);
  EXPECT_EQ(eight.parameters - four.parameters, 16 * (3 * 20 + 2 * 4) + 20 * 4 + 2 * 4)
      << "4 more heads add projections, filters of 4 taps, and two numbers per head";
}

TEST(ModelSize, GateOfSharedExpertsCountsAsProductOfOneColumn) {
  const auto size = [](const char* gate) {
    return model_size(small_recipe({"model.moe.shared_experts=1", std::string("model.moe.shared_gate=") + gate}).model,
                      Registry());
  };
  const ModelSize plain = size("false"), gated = size("true");
  EXPECT_EQ(gated.parameters - plain.parameters, 2 * 16) << "the gates of 2 layers have 16 elements each";
  EXPECT_EQ(gated.active_parameters - plain.active_parameters, 2 * 16);
  EXPECT_DOUBLE_EQ(gated.flops_per_token - plain.flops_per_token, 6.0 * 2 * 16);
}

TEST(ModelSize, CountsTheExpertsThatChooseAToken) {
  const auto size = [](const char* factor) {
    return model_size(
        small_recipe({"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.aux_loss.coefficient=0",
                      std::string("model.moe.capacity_factor=") + factor})
            .model,
        Registry());
  };
  const ModelSize half = size("0.5"), whole = size("1");
  // In each of 2 layers, a token has one expert instead of two if the factor is 0.5. An expert has 3 x 16 x 12 weights.
  EXPECT_EQ(whole.active_parameters - half.active_parameters, 2 * 3 * 16 * 12);
  EXPECT_DOUBLE_EQ(whole.flops_per_token - half.flops_per_token, 6.0 * 2 * 3 * 16 * 12);
  EXPECT_EQ(whole.parameters, half.parameters);
}

// Compares the count on a meta device with the parameters that the layers create.
class ParameterCount : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(ParameterCount, EqualsThatOfTheModel) {
  const comm::SelfGroup self;
  const Recipe recipe = small_recipe(GetParam());
  const ModelInstance instance(recipe, Registry(), self);
  int64_t all = 0, experts = 0;
  for (const auto& p : instance.parameters) {
    all += p->global_shape().numel();
    if (p->name().find(".experts.") != std::string::npos) experts += p->global_shape().numel();
  }
  EXPECT_EQ(model_size(recipe.model, Registry()).parameters, all);
  EXPECT_EQ(model_size(recipe.model, Registry()).expert_parameters, experts);
  const auto& m = recipe.model.moe;
  EXPECT_EQ(model_size(recipe.model, Registry()).active_parameters,
            all - (m.experts > 0 ? experts / m.experts * (m.experts - m.top_k) : 0));
}

using Overrides = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Recipes, ParameterCount,
    testing::Values(
        Overrides{}, Overrides{"model.bias=true"}, Overrides{"model.bias=true", "model.norm=layer_norm"},
        Overrides{"model.qkv_bias=true"}, Overrides{"model.o_bias=true"}, Overrides{"model.norm=layer_norm"},
        Overrides{"model.tied_embedding=true"}, Overrides{"model.position=learned"}, Overrides{"model.qk_norm=head"},
        Overrides{"model.qk_norm=all_heads"}, Overrides{"model.sinks=true"}, Overrides{"model.head_bias=true"},
        Overrides{"model.attention_chunk=4", "model.no_rotary_every=2", "model.qk_norm=unit"},
        Overrides{"model.moe.expert_bias=true", "model.moe.router_bias=true"},
        Overrides{"model.moe.shared_experts=2", "model.moe.shared_hidden=7", "model.bias=true"},
        Overrides{"model.moe.shared_experts=1", "model.moe.shared_gate=true"}, Overrides{"model.prediction_blocks=2"},
        Overrides{"model.prediction_blocks=1", "model.moe.experts=0", "model.mlp_hidden=20"},
        Overrides{"model.moe.dense_residual=true"}, Overrides{"model.moe.input=before_attention"},
        Overrides{"model.moe.dense_residual=true", "model.moe.input=before_attention"},
        Overrides{"model.moe.expert=gelu", "model.bias=true"},
        Overrides{"model.layers=5", "model.moe.dense_layers=1", "model.moe.every=2", "model.mlp=gelu"},
        Overrides{"model.moe.experts=0", "model.mlp_hidden=20"}, Overrides{"model.head_size=6", "model.kv_heads=1"},
        Overrides{"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.q_rank=6",
                  "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2",
                  "model.latent.value_size=4", "model.sinks=true"},
        Overrides{"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
                  "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=2"}));

TEST(ModelSize, DoesNotCountThePaddingOfLatentValues) {
  const Overrides latent{"model.attention=latent",    "model.kv_heads=auto",      "model.head_size=auto",
                         "model.latent.kv_rank=8",    "model.latent.nope_size=4", "model.latent.rope_size=2",
                         "model.latent.value_size=3", "model.moe.experts=0",      "model.mlp_hidden=20"};
  Recipe recipe = small_recipe(latent);
  const double short_context = model_size(recipe.model, Registry()).flops_per_token;
  const auto heads = static_cast<double>(recipe.model.heads * recipe.model.layers);
  const auto context = static_cast<double>(recipe.model.context);
  recipe.model.context *= 2;
  EXPECT_DOUBLE_EQ(model_size(recipe.model, Registry()).flops_per_token - short_context,
                   6.0 * (6 + 3) * heads * context / 2);
}

// The count includes layers that a user's program registers.
TEST(ModelSize, HasTheParametersAndOperationsOfARegisteredLayer) {
  Registry registry;
  registry.add_feed_forward("wide", {.make = [](const FeedForwardSpec& spec, const Builder& b) {
                              return std::make_unique<GeluMlp>(GeluMlp::Config{spec.model, 100}, b);
                            }});
  ModelConfig model = small_recipe({"model.moe.experts=0", "model.mlp=gelu", "model.mlp_hidden=50"}).model;
  const ModelSize narrow = model_size(model, registry);
  model.mlp = "wide";
  const ModelSize wide = model_size(model, registry);
  EXPECT_EQ(wide.parameters - narrow.parameters, 2 * 2 * 16 * 50)
      << "each of 2 layers has 2 products with 50 more columns of 16 elements";
  EXPECT_DOUBLE_EQ(wide.flops_per_token - narrow.flops_per_token, 6.0 * 2 * 2 * 16 * 50);
}

}  // namespace
}  // namespace hexad::tests
