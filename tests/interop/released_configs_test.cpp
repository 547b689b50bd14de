// Config files in the form in which models were released (tests/golden/hf/*_released). The sizes are those of the
// golden models. All other keys and values are those of the releases.
#include <gtest/gtest.h>

#include "framework/io/checkpoint_store.h"
#include "tests/interop/golden_configs.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"
#include "tools/interop/text_part.h"

namespace hexad::tests {
namespace {

std::string released_text(const std::string& name) {
  return read_text(golden_folder(name + "_released") + "/config.json");
}

class ReleasedConfigs : public testing::TestWithParam<std::string> {};

TEST_P(ReleasedConfigs, AreReadAndWrittenUnchanged) {
  const std::string text = text_part(released_text(GetParam()), "config.json");
  const ForeignConfig config = read_config(text, "config.json");
  const std::string written = write_config(*config.family, config.keys, text, "");
  Json expected = Json::parse(text);
  expected.erase("quantization_config");
  EXPECT_EQ(Json::parse(written), expected);
}

INSTANTIATE_TEST_SUITE_P(, ReleasedConfigs,
                         testing::Values("qwen3_moe", "qwen3_coder", "qwen2_moe", "qwen3_next", "qwen3_5_moe", "olmoe",
                                         "ernie4_5_moe", "glm4_moe", "deepseek_v3", "moonlight", "deepseek_v2",
                                         "mixtral", "minimax_m2", "gpt_oss", "gpt_oss_20b", "llama4_maverick",
                                         "llama4_scout", "arctic", "phimoe", "dbrx", "llama", "qwen3_5", "qwen3",
                                         "gpt2"),
                         [](const auto& i) { return i.param; });

/// A released config and the golden model whose weights it describes.
struct Released {
  std::string config, weights = config;
};
std::ostream& operator<<(std::ostream& out, const Released& released) { return out << released.config; }

class ReleasedModels : public testing::TestWithParam<Released> {};

TEST_P(ReleasedModels, AreImportedAndExportedWithTheSameWeights) {
  const ForeignFolder folder(GetParam().weights);
  write_text(folder.path() + "/config.json", released_text(GetParam().config));
  import_model(folder.path(), folder.beside("imported"));
  io::Checkpoint checkpoint = io::Checkpoint::open(folder.beside("imported"), io::Check::full);
  export_model(checkpoint, folder.beside("exported"));
  const RawTensors before = tensors_of(folder.path()), after = tensors_of(folder.beside("exported"));
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) EXPECT_EQ(after.at(name).bytes, tensor.bytes) << name;
}

INSTANTIATE_TEST_SUITE_P(, ReleasedModels,
                         testing::Values(Released{"qwen3_moe"}, Released{"qwen3_coder", "qwen3_moe"},
                                         Released{"qwen2_moe"}, Released{"qwen3_next"},
                                         Released{"qwen3_5_moe", "qwen3_5_moe_text"}, Released{"olmoe"},
                                         Released{"ernie4_5_moe"}, Released{"glm4_moe"}, Released{"deepseek_v3"},
                                         Released{"mixtral"}, Released{"minimax_m2"},
                                         Released{"gpt_oss_20b", "gpt_oss"}, Released{"llama4_maverick", "llama4_text"},
                                         Released{"arctic"}, Released{"phimoe"}, Released{"dbrx"}, Released{"llama"},
                                         Released{"qwen3_5", "qwen3_5_text"}, Released{"qwen3"}, Released{"gpt2"}),
                         [](const auto& i) { return i.param.config; });

TEST(ReleasedConfigsOfDbrx, HaveKeysThatAreNeutralOnlyAtOneValue) {
  const Json released = golden_config("dbrx_released");
  EXPECT_EQ(keys_of_config(released).real("model.moe.aux_loss.coefficient"), 0.05);
  const auto with = [&](const char* section, const char* key, const Json& value) {
    Json config = released;
    (std::string_view(section).empty() ? config : config[section])[key] = value;
    return refusal(config);
  };
  expect_contains(with("ffn_config", "uniform_expert_assignment", true),
                  "ffn_config.uniform_expert_assignment is true, expected false");
  expect_contains(with("ffn_config", "is_encoder_decoder", true),
                  "ffn_config.is_encoder_decoder is true, expected false");
  expect_contains(with("attn_config", "pruned_heads", {{"0", {1}}}), "attn_config.pruned_heads is {\"0\":[1]}");
  expect_contains(with("attn_config", "rope_share", 0.5), "attn_config.rope_share (0.5) is not known for dbrx");
  expect_contains(with("", "router_aux_loss_coef", 0.01),
                  "router_aux_loss_coef is 0.01, but ffn_config.moe_loss_weight");
}

TEST(ReleasedConfigsOfQwen3Coder, HaveKeysThatAreNeutralOnlyAtOneValue) {
  Json config = golden_config("qwen3_coder_released");
  config["shared_expert_intermediate_size"] = 8;
  expect_contains(refusal(config), "shared_expert_intermediate_size is 8, expected 0");
  config["shared_expert_intermediate_size"] = 0, config["use_qk_norm"] = false;
  expect_contains(refusal(config), "use_qk_norm is false, expected true");
  config["use_qk_norm"] = true, config["qkv_bias"] = true;
  expect_contains(refusal(config), "qkv_bias is true, expected false");
}

}  // namespace
}  // namespace hexad::tests
