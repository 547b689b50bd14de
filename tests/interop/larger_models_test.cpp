// Models with a vision encoder: the text model is imported, and the other tensors are refused or left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "framework/io/checkpoint_store.h"
#include "tests/interop/golden_configs.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"
#include "tools/interop/text_part.h"

namespace hexad::tests {
namespace {

/// A larger model, with the weights of a golden model as its text model.
struct Larger {
  std::string name, text_model, config;
  // Prefix of all names of the text model. A prefix that begins with "model." replaces "model." in these names.
  std::string prefix;
  std::vector<std::string> others;
};
std::ostream& operator<<(std::ostream& out, const Larger& larger) { return out << larger.name; }

class LargerModels : public testing::TestWithParam<Larger> {
 protected:
  void SetUp() override {
    const Larger& larger = GetParam();
    write_text(folder_.path() + "/config.json", read_text(golden_folder(larger.config) + "/config.json"));
    folder_.change_tensors([&](RawTensors& tensors) {
      RawTensors renamed;
      for (const auto& [name, tensor] : tensors) renamed[name_in_larger(name)] = tensor;
      for (const std::string& name : larger.others) renamed[name] = tensors.at("model.norm.weight");
      tensors = std::move(renamed);
    });
  }

  std::string name_in_larger(const std::string& name) const {
    const std::string& prefix = GetParam().prefix;
    if (!prefix.starts_with("model.")) return prefix + name;
    return name.starts_with("model.") ? prefix + name.substr(6) : name;
  }

  const ForeignFolder folder_{GetParam().text_model};
};

TEST_P(LargerModels, AreRefusedWithTheNamesOfTheirOtherTensors) {
  const std::string message =
      message_of(ExitCode::data, [&] { import_model(folder_.path(), folder_.beside("imported")); });
  expect_contains(message, cat(GetParam().others.size(), " tensors outside the text model"));
  expect_contains(message, GetParam().others.front());
  expect_contains(message, "`hexad import --text-only` imports the text model without them");
}

TEST_P(LargerModels, BecomeTheirTextModelIfOnlyTextIsWanted) {
  const ImportReport report = import_model(folder_.path(), folder_.beside("imported"), {.text_only = true});
  EXPECT_EQ(report.model_type, GetParam().text_model);
  const auto has_note = [&](const std::string& part) {
    return std::ranges::any_of(report.notes, [&](const std::string& n) { return n.find(part) != n.npos; });
  };
  EXPECT_TRUE(has_note(cat(GetParam().others.size(), " tensors outside the text model")));
  EXPECT_TRUE(has_note(cat("an export will be a ", GetParam().text_model, " model")));

  io::Checkpoint checkpoint = io::Checkpoint::open(folder_.beside("imported"), io::Check::full);
  const ExportReport exported = export_model(checkpoint, folder_.beside("exported"));
  EXPECT_EQ(exported.model_type, GetParam().text_model);
  const RawTensors text = tensors_of(golden_folder(GetParam().text_model)),
                   after = tensors_of(folder_.beside("exported"));
  ASSERT_EQ(after.size(), text.size());
  for (const auto& [name, tensor] : text) EXPECT_EQ(after.at(name).bytes, tensor.bytes) << name;
  const Json config = Json::parse(read_text(folder_.beside("exported") + "/config.json"));
  EXPECT_EQ(config["model_type"], GetParam().text_model);
  EXPECT_FALSE(config.contains("text_config"));
  import_model(folder_.beside("exported"), folder_.beside("again"));
}

TEST_P(LargerModels, MayBeTheOriginOfAnExport) {
  import_model(folder_.path(), folder_.beside("imported"), {.text_only = true});
  io::Checkpoint checkpoint = io::Checkpoint::open(folder_.beside("imported"), io::Check::full);
  export_model(checkpoint, folder_.beside("exported"), {.like = folder_.path()});
  const Json config = Json::parse(read_text(folder_.beside("exported") + "/config.json"));
  EXPECT_EQ(config["model_type"], GetParam().text_model);
}

TEST_P(LargerModels, MissingTensorsAreReportedUnderTheNameInTheFolder) {
  const std::string name = name_in_larger("model.norm.weight");
  folder_.change_tensors([&](RawTensors& tensors) { tensors.erase(name); });
  const std::string message = message_of(
      ExitCode::data, [&] { import_model(folder_.path(), folder_.beside("imported"), {.text_only = true}); });
  expect_contains(message, cat("missing tensor '", name, "'"));
}

INSTANTIATE_TEST_SUITE_P(
    , LargerModels,
    testing::Values(Larger{"llama4",
                           "llama4_text",
                           "llama4_maverick_released",
                           "language_model.",
                           {"multi_modal_projector.linear_1.weight", "vision_model.class_embedding"}},
                    Larger{"qwen3_5_moe",
                           "qwen3_5_moe_text",
                           "qwen3_5_moe_released",
                           "model.language_model.",
                           {"model.visual.merger.norm.weight", "model.visual.patch_embed.proj.weight"}},
                    Larger{"qwen3_5",
                           "qwen3_5_text",
                           "qwen3_5_released",
                           "model.language_model.",
                           {"model.visual.merger.norm.weight", "model.visual.patch_embed.proj.weight"}}),
    [](const auto& i) { return i.param.name; });

std::string refusal_of_text_part(const Json& config) {
  return message_of(ExitCode::data, [&] { text_part(config.dump(), "config.json"); });
}

TEST(TextPart, ContradictionsAndUnknownKeysAreRefused) {
  const Json released = golden_config("qwen3_5_moe_released");
  Json config = released;
  config["text_config"]["tie_word_embeddings"] = true;
  expect_contains(refusal_of_text_part(config),
                  "tie_word_embeddings is false, but text_config.tie_word_embeddings is true");
  config = released, config["window"] = 4;
  expect_contains(refusal_of_text_part(config), "window (4) is not known for qwen3_5_moe");
  config = released, config.erase("text_config");
  expect_contains(refusal_of_text_part(config), "text_config is missing, expected an object");
  config = released, config["text_config"]["model_type"] = "qwen3_5_text";
  expect_contains(refusal_of_text_part(config),
                  "text_config.model_type is \"qwen3_5_text\", expected qwen3_5_moe_text");
}

TEST(TextPart, KeysOfTheLargerModelApplyToItsText) {
  Json config = golden_config("llama4_maverick_released");
  config["text_config"].erase("torch_dtype");
  config["tie_word_embeddings"] = true;
  const Json text = Json::parse(text_part(config.dump(), "config.json"));
  EXPECT_EQ(text["torch_dtype"], "bfloat16");
  EXPECT_EQ(text["tie_word_embeddings"], true);
  EXPECT_EQ(text["architectures"], Json({"Llama4ForCausalLM"}));
}

TEST(ReadConfig, PositionsOfImagesHaveNoEffectOnText) {
  Json config = golden_config("qwen3_5_moe_text");
  EXPECT_EQ(keys_of_config(config).real("model.rotary_share"), 0.5);
  config["rope_parameters"]["mrope_section"] = {1, 1};
  expect_contains(refusal(config), "rotary mrope_section is [1,1], expected three whole numbers");
  Json other = golden_config("qwen3_next");
  other["rope_parameters"]["mrope_section"] = {1, 1, 0};
  expect_contains(refusal(other), "the rotary parameter mrope_section ([1,1,0]) may change the model");
}

TEST(WriteConfig, KeepsPositionsOfImagesIfTheThetaChanges) {
  const Json config = golden_config("qwen3_5_moe_text");
  ForeignConfig read = read_config(config.dump(), "config.json");
  read.keys.set("model.rotary_theta", 500000, "test");
  const Json written = Json::parse(write_config(*read.family, read.keys, config.dump(), ""));
  EXPECT_EQ(written["rope_parameters"]["mrope_section"], Json({1, 1, 0}));
  EXPECT_EQ(written["rope_parameters"]["rope_theta"], 500000);
}

TEST(Export, NewModelsOfQwen35HaveFusedExperts) {
  const ForeignFolder folder("qwen3_5_moe_text");
  import_model(folder.path(), folder.beside("imported"));
  std::filesystem::remove_all(folder.beside("imported") + "/hugging_face");
  io::Checkpoint checkpoint = io::Checkpoint::open(folder.beside("imported"), io::Check::full);
  export_model(checkpoint, folder.beside("exported"), {.family = "qwen3_5_moe_text"});
  const RawTensors after = tensors_of(folder.beside("exported"));
  EXPECT_TRUE(after.contains("model.layers.0.mlp.experts.gate_up_proj"));
  EXPECT_FALSE(after.contains("model.layers.0.mlp.experts.0.gate_proj.weight"));
  import_model(folder.beside("exported"), folder.beside("again"));
  export_model(checkpoint, folder.beside("like"), {.like = folder.beside("exported")});
  EXPECT_TRUE(tensors_of(folder.beside("like")).contains("model.layers.0.mlp.experts.gate_up_proj"));
}

TEST(ReadConfig, PartsThatQwen35LacksAreRefusedByName) {
  const auto with = [](const char* key, const Json& value) {
    Json config = golden_config("qwen3_5_moe_text");
    config[key] = value;
    return refusal(config);
  };
  expect_contains(with("attn_output_gate", false), "attn_output_gate is false, expected true");
  expect_contains(with("mlp_only_layers", {0}), "mlp_only_layers is [0], expected []");
  expect_contains(with("norm_topk_prob", false), "norm_topk_prob is false, expected true");
}

}  // namespace
}  // namespace hexad::tests
