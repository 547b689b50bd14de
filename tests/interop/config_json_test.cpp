#include "tools/interop/config_json.h"

#include <gtest/gtest.h>

#include "tests/interop/foreign_folder.h"
#include "tests/interop/golden_configs.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
namespace {

TEST(ReadConfig, PropertiesOfQwen3MoeBecomeRecipeKeys) {
  const ModelKeys keys = keys_of_config(golden_config("qwen3_moe"));
  EXPECT_EQ(keys.integer("model.layers"), 2);
  EXPECT_EQ(keys.integer("model.heads"), 4);
  EXPECT_EQ(keys.integer("model.kv_heads"), 2);
  EXPECT_EQ(keys.integer("model.head_size"), 8);
  EXPECT_EQ(keys.integer("model.moe.experts"), 4);
  EXPECT_EQ(keys.integer("model.moe.expert_hidden"), 8);
  EXPECT_EQ(keys.text("model.qk_norm"), "head");
  EXPECT_TRUE(keys.flag("model.moe.normalize"));
  EXPECT_FALSE(keys.flag("model.qkv_bias"));
}

TEST(ReadConfig, PropertiesOfGlm4MoeAndGpt2BecomeRecipeKeys) {
  const ModelKeys glm = keys_of_config(golden_config("glm4_moe"));
  EXPECT_EQ(glm.text("model.moe.score"), "sigmoid");
  EXPECT_TRUE(glm.flag("model.moe.selection_bias"));
  EXPECT_EQ(glm.real("model.moe.scale"), 2.5);
  EXPECT_EQ(glm.real("model.rotary_share"), 0.5);
  EXPECT_TRUE(glm.flag("model.qkv_bias"));
  EXPECT_FALSE(glm.flag("model.o_bias"));
  const ModelKeys gpt2 = keys_of_config(golden_config("gpt2"));
  EXPECT_EQ(gpt2.text("model.norm"), "layer_norm");
  EXPECT_EQ(gpt2.text("model.gelu"), "tanh");
  EXPECT_EQ(gpt2.integer("model.mlp_hidden"), 64);
}

TEST(ReadConfig, PropertiesOfDeepseekBecomeRecipeKeys) {
  const ModelKeys v3 = keys_of_config(golden_config("deepseek_v3_released"));
  EXPECT_EQ(v3.text("model.attention"), "latent");
  EXPECT_EQ(v3.integer("model.latent.q_rank"), 6);
  EXPECT_EQ(v3.integer("model.latent.kv_rank"), 5);
  EXPECT_EQ(v3.integer("model.latent.value_size"), 2);
  EXPECT_EQ(v3.integer("model.head_size"), 7);
  EXPECT_EQ(v3.real("model.yarn.mscale_all_dim"), 1);
  EXPECT_EQ(v3.text("model.moe.group_score"), "best_two");
  const ModelKeys v2 = keys_of_config(golden_config("deepseek_v2_released"));
  EXPECT_EQ(v2.integer("model.latent.q_rank"), 0);
  EXPECT_EQ(v2.real("model.yarn.mscale"), 0.707);
  EXPECT_EQ(v2.text("model.moe.group_score"), "best");
  EXPECT_FALSE(v2.flag("model.moe.normalize"));
}

TEST(ReadConfig, GreedyChoiceAmongSeveralGroupsIsRefused) {
  Json config = golden_config("deepseek_v2_released");
  config["topk_method"] = "greedy";
  expect_contains(refusal(config), "topk_method is \"greedy\", expected group_limited_greedy, because n_group is 4");
  config["n_group"] = 1, config["topk_group"] = 1;
  EXPECT_EQ(keys_of_config(config).text("model.moe.group_score"), "best_two");
}

TEST(ReadConfig, OneMagnitudeOfLatentAttentionWithoutTheOtherIsRefused) {
  Json config = golden_config("kimi_k2");
  config["rope_scaling"].erase("mscale_all_dim");
  expect_contains(refusal(config),
                  "rotary mscale is 1 and mscale_all_dim is 0, expected both above 0, or both missing");
}

TEST(ReadConfig, RotaryHalvesOfLatentAttentionAreRefused) {
  Json config = golden_config("deepseek_v3_released");
  config["rope_interleave"] = false;
  expect_contains(refusal(config), "rope_interleave is false, expected true");
}

TEST(ReadConfig, SizesThatLatentAttentionDoesNotSupportAreRefused) {
  Json config = golden_config("deepseek_v3_released");
  config["v_head_dim"] = 8;
  expect_contains(refusal(config), "v_head_dim is 8, expected at most qk_nope_head_dim + qk_rope_head_dim, 7");
  config["v_head_dim"] = 7;
  EXPECT_EQ(keys_of_config(config).integer("model.latent.value_size"), 7);
  config["num_key_value_heads"] = 1;
  expect_contains(refusal(config), "num_key_value_heads is 1, expected the number of heads, 2");
}

// Transformers 4 and 5 write the same model with different keys.
TEST(ReadConfig, OldAndNewRotaryKeysAreEquivalent) {
  for (const char* family : {"mixtral", "llama", "qwen3", "glm4_moe", "minimax_m2"}) {
    const Json modern = golden_config(family);
    Json old = modern;
    Json scaling = old["rope_parameters"];
    old.erase("rope_parameters");
    old["rope_theta"] = scaling["rope_theta"];
    scaling.erase("rope_theta");
    if (scaling.contains("partial_rotary_factor")) old["partial_rotary_factor"] = scaling["partial_rotary_factor"];
    scaling.erase("partial_rotary_factor");
    scaling["type"] = scaling["rope_type"];
    scaling.erase("rope_type");
    if (scaling["type"] != "default") old["rope_scaling"] = scaling;
    old["torch_dtype"] = old["dtype"];
    old.erase("dtype");
    EXPECT_EQ(ModelKeys::differences(keys_of_config(modern), keys_of_config(old)), std::vector<std::string>())
        << family;
    EXPECT_EQ(read_config(old.dump(), "config.json").dtype, "float32");
  }
}

// The reference implementations of these families ignore partial_rotary_factor, or fail if it is below 1.
TEST(ReadConfig, PartialRotationIsRefusedForFamiliesThatRotateWholeHeads) {
  for (const char* family : {"mixtral", "qwen3_moe", "qwen2_moe", "olmoe", "ernie4_5_moe", "deepseek_v3", "deepseek_v2",
                             "gpt_oss", "llama4_text", "phimoe", "llama", "qwen3"}) {
    Json config = golden_config(family);
    config["rope_parameters"]["partial_rotary_factor"] = 0.5;
    expect_contains(
        refusal(config),
        cat("partial_rotary_factor is 0.5, expected 1, because all dimensions of a head of ", family, " rotate"));
    config["rope_parameters"]["partial_rotary_factor"] = 1.0;
    EXPECT_EQ(keys_of_config(config).real("model.rotary_share"), 1) << family;
  }
}

// Other implementations of LongRoPE compute the magnitude from the factor, and ignore short_mscale and long_mscale.
TEST(ReadConfig, LongRopeIsRefusedForFamiliesWithoutItsMagnitudes) {
  Json config = golden_config("llama");
  config["rope_parameters"] = golden_config("phimoe")["rope_parameters"];
  expect_contains(refusal(config),
                  "rope_type is \"longrope\", expected default, linear, dynamic, yarn or llama3, because "
                  "llama does not read short_mscale and long_mscale");
}

TEST(ReadConfig, NormedHeadsOfLlama4IgnoreTheMagnitudeOfYarn) {
  Json config = golden_config("llama4_text");
  config["rope_parameters"] = {
      {"rope_type", "yarn"}, {"rope_theta", 10000.0}, {"factor", 8.0}, {"original_max_position_embeddings", 8}};
  const ForeignConfig read = read_config(config.dump(), "config.json");
  EXPECT_EQ(read.keys.real("model.yarn.mscale"), 0);
  const ModelKeys again = read_config(write_config(*read.family, read.keys, "", "float32"), "config.json").keys;
  EXPECT_EQ(ModelKeys::differences(read.keys, again), std::vector<std::string>());
  config["use_qk_norm"] = false;
  EXPECT_EQ(keys_of_config(config).real("model.yarn.mscale"), 1);
}

// transformers accepts null for some of these flags, and reads null as false.
TEST(ReadConfig, NullIsRefusedForFlagsThatAreTrueIfMissing) {
  const auto refused_with = [](const std::string& family, const std::string& key, const std::string& part) {
    Json config = golden_config(family);
    config[key] = nullptr;
    expect_contains(refusal(config), cat(key, " is null, ", part));
  };
  const std::string as_false = "which the reference implementation takes as false, expected true";
  refused_with("deepseek_v3", "norm_topk_prob", as_false + " or false");
  refused_with("glm4_moe", "norm_topk_prob", as_false + " or false");
  refused_with("qwen3_next", "norm_topk_prob", as_false + " or false");
  refused_with("gpt_oss", "attention_bias", as_false + " or false");
  refused_with("deepseek_v3", "rope_interleave", as_false);
  refused_with("gpt2", "scale_attn_weights", as_false);
  refused_with("llama4_text", "use_qk_norm", "expected true or false");
  refused_with("llama4_text", "attn_temperature_tuning", "expected true or false");
  Json config = golden_config("gpt_oss");
  config["rope_parameters"]["truncate"] = nullptr;
  expect_contains(refusal(config), "rotary truncate is null, expected true or false");
  config = golden_config("qwen3_moe");  // without the key, attention_bias is false
  config["attention_bias"] = nullptr;
  EXPECT_FALSE(keys_of_config(config).flag("model.qkv_bias"));
}

TEST(ReadConfig, RotaryDimIsAShareOfTheHead) {
  Json config = golden_config("minimax_m2");
  config["rope_parameters"].erase("partial_rotary_factor");
  config["rotary_dim"] = 2;
  EXPECT_EQ(keys_of_config(config).real("model.rotary_share"), 0.25);
  config["rope_parameters"]["partial_rotary_factor"] = 0.5;
  expect_contains(refusal(config), "rotary_dim is 2, but partial_rotary_factor is 0.5");
}

TEST(ReadConfig, BlocksWithExpertsFollowTheFamilysKeys) {
  Json qwen = golden_config("qwen3_moe");
  qwen["num_hidden_layers"] = 6;
  qwen["decoder_sparse_step"] = 2;
  const ModelKeys every_second = keys_of_config(qwen);
  for (int64_t l = 0; l < 6; ++l) EXPECT_EQ(every_second.is_moe(l), l % 2 == 1) << l;
  qwen["decoder_sparse_step"] = 1;
  qwen["mlp_only_layers"] = {0, 1};
  const ModelKeys first_dense = keys_of_config(qwen);
  for (int64_t l = 0; l < 6; ++l) EXPECT_EQ(first_dense.is_moe(l), l >= 2) << l;
  qwen["mlp_only_layers"] = {0, 3};
  expect_contains(refusal(qwen),
                  "decoder_sparse_step, mlp_only_layers describe blocks with experts at unequal distances (blocks 2, "
                  "3, 5, 6), expected equal distances");
  Json ernie = golden_config("ernie4_5_moe");
  ernie["num_hidden_layers"] = 5, ernie["moe_layer_end_index"] = -1, ernie["moe_layer_interval"] = 2;
  const ModelKeys interval = keys_of_config(ernie);
  for (int64_t l = 0; l < 5; ++l) EXPECT_EQ(interval.is_moe(l), l == 1 || l == 3) << l;
}

TEST(ReadConfig, KeysThatChangeTheModelAreRefusedByName) {
  const auto refused_with = [](const std::string& family, const std::string& key, const Json& value,
                               const std::string& part) {
    Json config = golden_config(family);
    config[key] = value;
    expect_contains(refusal(config), part);
  };
  refused_with("mixtral", "attention_sinks", 4,
               "attention_sinks (4) is not known for mixtral and may change the model");
  refused_with("mixtral", "sliding_window", 4096, "sliding_window is 4096, expected null");
  refused_with("mixtral", "hidden_act", "relu", "hidden_act is \"relu\", expected \"silu\"");
  refused_with("qwen3", "layer_types", {"full_attention", "sliding_attention"}, "layer_types is");
  refused_with("qwen3", "quantization_config", {{"quant_method", "fp8"}}, "quantization_config");
  refused_with("minimax_m2", "scoring_func", "softmax", "scoring_func is \"softmax\", expected \"sigmoid\"");
  refused_with("gpt2", "scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx is true");
  refused_with("gpt2", "rope_theta", 10000, "gpt2 has no rotary positions");
  refused_with("llama", "partial_rotary_factor", 1.5,
               "partial_rotary_factor is 1.5, expected a number above 0 and at most 1");
  refused_with("llama", "rope_parameters", {{"rope_type", "ntk"}}, "rope_type is \"ntk\", expected one of default");
  refused_with("llama", "rope_parameters", {{"rope_type", "dynamic"}, {"alpha", 1000}},
               "rotary parameter alpha (1000)");
  refused_with("phimoe", "rope_parameters", {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.0}}},
               "rotary long_factor is missing, expected a list for rope_type 'longrope'");
  refused_with("llama", "rope_parameters", {{"rope_type", "default"}, {"mscale", 2}}, "rotary parameter mscale (2)");
  refused_with("qwen3", "rope_scaling", {{"rope_type", "linear"}}, "rope_scaling differs from rope_parameters");
}

TEST(ReadConfig, WrongAndMissingValuesAreRefusedByName) {
  Json config = golden_config("mixtral");
  config.erase("hidden_size");
  expect_contains(refusal(config), "config.json: hidden_size is missing");
  config = golden_config("mixtral");
  config["hidden_size"] = "wide";
  expect_contains(refusal(config), "config.json: hidden_size is \"wide\", expected a whole number");
  config["hidden_size"] = 16, config["num_key_value_heads"] = 3;
  expect_contains(refusal(config), "num_key_value_heads is 3, expected a divisor of the 4 heads");
  config["num_key_value_heads"] = 2, config["num_hidden_layers"] = 1.5;
  expect_contains(refusal(config), "num_hidden_layers is 1.5, expected a whole number from 0 to 10000");
  config["num_hidden_layers"] = 1'000'000'000;
  expect_contains(refusal(config), "num_hidden_layers is 1000000000, expected a whole number from 0 to 10000");
  config["num_hidden_layers"] = 2, config["num_experts"] = 5;
  expect_contains(refusal(config), "num_experts is 5, but num_local_experts is 4");
}

TEST(ReadConfig, SizesThatAreTooLargeOrZeroAreRefused) {
  Json config = golden_config("mixtral");
  config["vocab_size"] = int64_t{1} << 40;
  expect_contains(refusal(config), "vocab_size is 1099511627776, expected a whole number from 0 to 16777216");
  config = golden_config("mixtral");
  config["num_hidden_layers"] = 5000, config["num_local_experts"] = 5000;
  expect_contains(refusal(config), "all blocks together would have 25000000 experts, expected at most 1000000");
  config["num_hidden_layers"] = 2, config["num_local_experts"] = 0;
  expect_contains(refusal(config), "num_local_experts or num_experts gives model.moe.experts 0, expected at least 1");
}

TEST(ReadConfig, ChoicesThatTheExpertsDoNotAllowAreRefusedByKey) {
  Json config = golden_config("deepseek_v3");  // a token has 2 of 8 experts, from 2 of 4 groups
  const auto refused_with = [&](const std::string& key, int64_t value, const std::string& part) {
    Json changed = config;
    changed[key] = value;
    expect_contains(refusal(changed), part);
  };
  refused_with("n_group", 3, "n_group gives model.moe.groups 3, expected a divisor of the 8 experts");
  refused_with("n_group", 0, "n_group gives model.moe.groups 0, expected a divisor of the 8 experts");
  refused_with("topk_group", 5,
               "topk_group gives model.moe.top_groups 5, expected a whole number from 1 to 4, the number of groups");
  refused_with("num_experts_per_tok", 5,
               "num_experts_per_tok or moe_k gives model.moe.top_k 5, expected a whole number from 1 to 4, the number "
               "of experts in 2 of 4 groups");
  refused_with("num_experts_per_tok", 0,
               "num_experts_per_tok or moe_k gives model.moe.top_k 0, expected a whole number from 1 to 4");
  config["num_experts_per_tok"] = 4;
  EXPECT_EQ(keys_of_config(config).integer("model.moe.top_k"), 4);
  config["n_group"] = 1, config["topk_group"] = 1, config["num_experts_per_tok"] = 8;
  EXPECT_EQ(keys_of_config(config).integer("model.moe.top_k"), 8);
  config["num_experts_per_tok"] = 9;
  expect_contains(refusal(config),
                  "num_experts_per_tok or moe_k gives model.moe.top_k 9, expected a whole number from 1 to 8, the "
                  "number of experts");
}

TEST(ReadConfig, BlocksOfWhichNoneHasExpertsAreRefusedByKey) {
  Json config = golden_config("deepseek_v3");
  config["first_k_dense_replace"] = 2;
  expect_contains(refusal(config),
                  "according to first_k_dense_replace, none of the 2 blocks has experts, expected at least one");
  config["first_k_dense_replace"] = -1;
  expect_contains(refusal(config), "first_k_dense_replace is -1, expected a whole number from 0 to");
  config["first_k_dense_replace"] = uint64_t{1} << 63;
  expect_contains(refusal(config), "first_k_dense_replace is 9223372036854775808, expected a whole number from 0 to");
}

TEST(ReadConfig, RotaryParametersThatTheKindNeedsMayNotBeMissing) {
  const std::pair<const char*, std::vector<const char*>> kinds[] = {
      {"llama", {"factor", "low_freq_factor", "high_freq_factor"}}, {"qwen3", {"factor"}}};
  for (const auto& [family, needed] : kinds)
    for (const char* key : needed) {
      Json config = golden_config(family);
      config["rope_parameters"].erase(key);
      expect_contains(refusal(config), cat("rotary ", key, " is missing, expected a number for rope_type"));
    }
  Json config = golden_config("llama");
  config["rope_parameters"] = {{"rope_type", "linear"}};
  expect_contains(refusal(config), "rotary factor is missing, expected a number for rope_type 'linear'");
}

TEST(ReadConfig, HiddenSizeThatHeadsDoNotDivideIsRefused) {
  Json config = golden_config("gpt2");
  config["n_head"] = 3;
  expect_contains(refusal(config), "the hidden size is 16, expected a multiple of the 3 heads");
  config = golden_config("qwen3");
  config["num_attention_heads"] = 3, config["num_key_value_heads"] = 3;
  EXPECT_EQ(keys_of_config(config).integer("model.head_size"), 8)
      << "an explicit head size need not divide the hidden size";
}

TEST(ReadConfig, BlocksWithoutFullAttentionAreRefused) {
  Json config = golden_config("minimax_m2");
  config["attn_type_list"] = {1, 1};
  keys_of_config(config);
  config["attn_type_list"] = {1, 0};
  expect_contains(refusal(config), "attn_type_list is [1,0], expected a list of 1 (full attention)");
}

TEST(ReadConfig, BlocksThatPredictFurtherTokensAreCounted) {
  Json config = golden_config("glm4_moe");
  EXPECT_EQ(read_config(config.dump(), "config.json").prediction_blocks, 0);
  config["num_nextn_predict_layers"] = 2;
  EXPECT_EQ(read_config(config.dump(), "config.json").prediction_blocks, 2);
  EXPECT_EQ(read_config(config.dump(), "config.json").prediction_key, "num_nextn_predict_layers");
  config["num_nextn_predict_layers"] = -1;
  expect_contains(refusal(config), "num_nextn_predict_layers is -1, expected a whole number from 0 to 10000");
  config["num_nextn_predict_layers"] = nullptr, config["num_mtp_layers"] = 3;
  EXPECT_EQ(read_config(config.dump(), "config.json").prediction_blocks, 3);
  EXPECT_EQ(read_config(config.dump(), "config.json").prediction_key, "num_mtp_layers");
}

TEST(ReadConfig, UnknownFamilyIsRefusedWithTheNearestName) {
  Json config = golden_config("mixtral");
  config["model_type"] = "mixtrol";
  expect_contains(refusal(config), "model_type is 'mixtrol', an unknown family; did you mean 'mixtral'?");
}

TEST(ReadConfig, ClampOfOlmoeBecomesTheClampOfTheRecipe) {
  Json config = golden_config("olmoe");
  EXPECT_TRUE(keys_of_config(config)["model.qkv_clip"].is_null());
  config["clip_qkv"] = 8.0;
  EXPECT_EQ(keys_of_config(config).real("model.qkv_clip"), 8.0);
}

TEST(ReadConfig, AttentionOfLlama4BecomesRecipeKeys) {
  Json config = golden_config("llama4_text");
  const ModelKeys keys = keys_of_config(config);
  EXPECT_EQ(keys.integer("model.no_rotary_every"), 4);
  EXPECT_EQ(keys.integer("model.full_attention_every"), 4);
  EXPECT_EQ(keys.integer("model.attention_chunk"), 8);
  EXPECT_EQ(keys.real("model.temperature.scale"), 0.5);
  EXPECT_EQ(keys.integer("model.temperature.floor"), 4);
  EXPECT_EQ(keys.text("model.qk_norm"), "unit");
  EXPECT_EQ(keys.text("model.moe.weigh"), "input");
  EXPECT_EQ(keys.shared_width(), 8);
  for (int64_t l = 0; l < 4; ++l) EXPECT_EQ(keys.is_moe(l), l % 2 == 1) << l;
  for (const char* key : {"no_rope_layers", "layer_types", "moe_layers"}) config.erase(key);
  EXPECT_EQ(ModelKeys::differences(keys, keys_of_config(config)), std::vector<std::string>());
}

TEST(ReadConfig, AttentionOfLlama4MayHaveNoChunksAndNoTemperature) {
  Json config = golden_config("llama4_text");
  config["attention_chunk_size"] = nullptr, config["attn_temperature_tuning"] = 0, config["use_qk_norm"] = false;
  expect_contains(refusal(config), "attention_chunk_size is null, expected a number of tokens");
  config["layer_types"] = Json(std::vector<std::string>(4, "full_attention"));
  const ForeignConfig read = read_config(config.dump(), "config.json");
  const ModelKeys& keys = read.keys;
  EXPECT_TRUE(keys["model.attention_chunk"].is_null());
  EXPECT_EQ(keys.integer("model.full_attention_every"), 0);
  EXPECT_EQ(keys.real("model.temperature.scale"), 0);
  EXPECT_EQ(keys.text("model.qk_norm"), "none");
  EXPECT_EQ(nlohmann::json::parse(write_config(*read.family, keys, "", "float32"))["attention_chunk_size"], 8192);
}

TEST(ReadConfig, PatternsOfLlama4ThatHexadLacksAreRefusedByKey) {
  const auto refused_with = [](const std::string& key, const Json& value, const std::string& part) {
    Json config = golden_config("llama4_text");
    config[key] = value;
    expect_contains(refusal(config), part);
  };
  refused_with("no_rope_layers", {1, 0, 0, 1},
               "no_rope_layers marks blocks that are not every n-th block for any n: 2, 3; expected blocks n");
  refused_with("no_rope_layers", {0, 0, 0, 0}, "no_rope_layers is 0 for all blocks");
  refused_with("no_rope_layers", {1, 2, 1, 0}, "no_rope_layers[1] is 2, expected 0 (no rotary positions) or 1");
  refused_with("layer_types", {"chunked_attention"}, "expected an array of 4 entries");
  refused_with("moe_layers", {7}, "moe_layers is [7], expected a list of whole numbers from 0 to 3");
  refused_with("num_experts_per_tok", 2, "num_experts_per_tok is 2, expected 1");
}

TEST(ReadConfig, PropertiesOfPhimoeBecomeRecipeKeys) {
  Json config = golden_config("phimoe");
  const ModelKeys keys = keys_of_config(config);
  EXPECT_EQ(keys.text("model.moe.router"), "sparse_mixer");
  EXPECT_EQ(keys.real("model.moe.mixer_jitter"), 0.2);
  EXPECT_EQ(keys.integer("model.window"), 20);
  EXPECT_TRUE(keys.flag("model.bias") && keys.flag("model.qkv_bias") && keys.flag("model.o_bias"));
  EXPECT_TRUE(keys.flag("model.head_bias"));
  EXPECT_FALSE(keys.flag("model.moe.expert_bias"));
  config["num_experts_per_tok"] = 3;
  expect_contains(refusal(config), "num_experts_per_tok is 3, expected 2");
}

TEST(ReadConfig, LongRopeOfPhimoeBecomesRecipeKeys) {
  Json config = golden_config("phimoe");
  const ModelKeys keys = keys_of_config(config);
  EXPECT_EQ(keys.text("model.rotary_scaling.kind"), "longrope");
  EXPECT_EQ(keys["model.rotary_scaling.short_factors"].dump(), "[1.0,1.5]");
  EXPECT_EQ(keys.real("model.rotary_scaling.long_magnitude"), 1.3);
  EXPECT_EQ(keys.integer("model.rotary_scaling.original_context"), 32);
  EXPECT_TRUE(read_config(config.dump(), "config.json").notes.empty());
  config["rope_parameters"]["original_max_position_embeddings"] = 16;
  expect_contains(read_config(config.dump(), "config.json").notes.at(0), "long_factor applies to texts of any length");
  config["rope_parameters"]["long_factor"] = "wide";
  expect_contains(refusal(config), "rotary long_factor is \"wide\", expected a list of numbers");
}

TEST(ReadConfig, DynamicScalingIsNoScalingUpToTheContext) {
  Json config = golden_config("mixtral");
  const ModelKeys plain = keys_of_config(config);
  config["rope_parameters"]["rope_type"] = "dynamic", config["rope_parameters"]["factor"] = 4.0;
  const ForeignConfig read = read_config(config.dump(), "config.json");
  EXPECT_EQ(ModelKeys::differences(plain, read.keys), std::vector<std::string>());
  ASSERT_EQ(read.notes.size(), 1u);
  expect_contains(read.notes[0], "rope_type dynamic is imported as no scaling, which is the same up to 32 tokens");
}

TEST(ReadConfig, KeysInSectionsOfDbrxBecomeRecipeKeys) {
  const ModelKeys keys = keys_of_config(golden_config("dbrx"));
  EXPECT_EQ(keys.integer("model.kv_heads"), 2);
  EXPECT_EQ(keys.real("model.qkv_clip"), 0.5);
  EXPECT_EQ(keys.real("model.rotary_theta"), 20000);
  EXPECT_EQ(keys.text("model.norm"), "layer_norm");
  EXPECT_FALSE(keys.flag("model.bias"));
  EXPECT_EQ(keys.integer("model.moe.experts"), 4);
  EXPECT_EQ(keys.integer("model.moe.expert_hidden"), 8);
  EXPECT_TRUE(keys.flag("model.moe.normalize"));
}

TEST(ReadConfig, WeightsOfDbrxAreDividedByTheirSumOrNotAtAll) {
  Json config = golden_config("dbrx");
  config["ffn_config"]["moe_normalize_expert_weights"] = nullptr;
  EXPECT_FALSE(keys_of_config(config).flag("model.moe.normalize"));
  config["ffn_config"]["moe_normalize_expert_weights"] = 2;
  expect_contains(refusal(config), "ffn_config.moe_normalize_expert_weights is 2, expected 1 (weights");
}

TEST(ReadConfig, BadSectionsAreRefusedByName) {
  const auto refused_with = [](const std::string& section, const std::string& key, const Json& value,
                               const std::string& part) {
    Json config = golden_config("dbrx");
    config[section][key] = value;
    expect_contains(refusal(config), part);
  };
  refused_with("attn_config", "window", 4, "attn_config.window (4) is not known for dbrx and may change the model");
  refused_with("attn_config", "rope_theta", 7.0, "attn_config.rope_theta is 7.0, but rope_theta is 20000.0");
  refused_with("ffn_config", "ffn_act_fn", {{"name", "gelu"}}, "ffn_config.ffn_act_fn is {\"name\":\"gelu\"}");
  Json config = golden_config("dbrx");
  config["attn_config"] = 5;
  expect_contains(refusal(config), "attn_config is 5, expected an object");
}

// MiniMax-M2 and DeepSeek-V3 use different names for the same format.
TEST(ReadConfig, BothNamesOfTheFp8FormatAreAccepted) {
  Json config = golden_config("minimax_m2");
  EXPECT_FALSE(read_config(config.dump(), "config.json").fp8_blocks);
  config["quantization_config"] = {{"activation_scheme", "dynamic"},
                                   {"fmt", "float8_e4m3fn"},
                                   {"quant_method", "fp8"},
                                   {"weight_block_size", {128, 128}},
                                   {"modules_to_not_convert", {"gate", "e_score_correction_bias", "lm_head"}}};
  EXPECT_TRUE(read_config(config.dump(), "config.json").fp8_blocks);
  config["quantization_config"]["fmt"] = "e4m3";
  EXPECT_TRUE(read_config(config.dump(), "config.json").fp8_blocks);
  config["quantization_config"]["fmt"] = "e5m2";
  expect_contains(refusal(config), "expected quant_method fp8, fmt e4m3 or float8_e4m3fn, and weight_block_size");
}

TEST(ReadConfig, DropoutIsNotedButAccepted) {
  const std::vector<std::string> notes = read_config(golden_config("gpt2").dump(), "config.json").notes;
  ASSERT_EQ(notes.size(), 3u);
  expect_contains(notes[0], "resid_pdrop (0.1) is not imported");
}

}  // namespace
}  // namespace hexad::tests
