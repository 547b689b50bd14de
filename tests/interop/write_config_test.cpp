// Configs that exports write.
#include "tools/interop/config_json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/interop/foreign_folder.h"
#include "tests/interop/golden_configs.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
namespace {

TEST(WriteConfig, SameModelKeepsTheTextOfTheOrigin) {
  for (const Family& family : families()) {
    const std::string text = read_text(golden_folder(std::string(family.model_type)) + "/config.json");
    EXPECT_EQ(write_config(family, read_config(text, "config.json").keys, text, ""), text) << family.model_type;
  }
}

TEST(WriteConfig, ChangedKeysAreWrittenAndOthersKept) {
  Json config = golden_config("mixtral");
  config["bos_token_id"] = 7;
  ForeignConfig read = read_config(config.dump(), "config.json");
  read.keys.set("model.context", 64, "test");
  read.keys.set("model.moe.top_k", 3, "test");
  const Json written = Json::parse(write_config(*read.family, read.keys, config.dump(), "bfloat16"));
  EXPECT_EQ(written["max_position_embeddings"], 64);
  EXPECT_EQ(written["num_experts_per_tok"], 3);
  EXPECT_EQ(written["bos_token_id"], 7);
  EXPECT_EQ(written["dtype"], "bfloat16");
  EXPECT_EQ(written["rope_parameters"], config["rope_parameters"]);
}

TEST(WriteConfig, ChangedKeysAreWrittenIntoTheirSection) {
  const Json config = golden_config("dbrx");
  ForeignConfig read = read_config(config.dump(), "config.json");
  read.keys.set("model.qkv_clip", 0.25, "test");
  read.keys.set("model.rotary_theta", 5e5, "test");
  Json expected = config;
  expected["attn_config"]["clip_qkv"] = 0.25;
  expected["attn_config"]["rope_theta"] = expected["rope_parameters"]["rope_theta"] = 5e5;
  const std::string written = write_config(*read.family, read.keys, config.dump(), "");
  EXPECT_EQ(nlohmann::json::parse(written), nlohmann::json::parse(expected.dump()));
}

// max_position_embeddings is also the context before scaling if the config has no original_max_position_embeddings.
TEST(WriteConfig, ImpliedOriginalContextIsWrittenIfTheContextChanges) {
  for (const char* family : {"qwen3", "llama", "phimoe", "deepseek_v3_released"}) {
    for (const bool old_form : {false, true}) {
      Json config = golden_config(family);
      config.erase("original_max_position_embeddings");
      config["rope_parameters"].erase("original_max_position_embeddings");
      if (old_form) {
        Json scaling = config["rope_parameters"];
        config.erase("rope_parameters");
        config["rope_theta"] = scaling["rope_theta"], scaling.erase("rope_theta");
        config["rope_scaling"] = scaling;
      }
      ForeignConfig read = read_config(config.dump(), "config.json");
      EXPECT_EQ(write_config(*read.family, read.keys, config.dump(), ""), config.dump());
      read.keys.set("model.context", 16, "test");
      const Json written = Json::parse(write_config(*read.family, read.keys, config.dump(), ""));
      EXPECT_EQ(written["max_position_embeddings"], 16) << family;
      const Json& rotary = written.at(old_form ? "rope_scaling" : "rope_parameters");
      EXPECT_EQ(rotary.value("original_max_position_embeddings", 0), 32) << family;
    }
  }
}

TEST(WriteConfig, NtkScalingBecomesALargerBase) {
  // All dimensions rotate in mixtral, and half of them in glm4_moe.
  for (const char* family : {"mixtral", "glm4_moe"}) {
    const Json config = golden_config(family);
    ForeignConfig read = read_config(config.dump(), "config.json");
    read.keys.set("model.rotary_theta", 10000, "test");
    read.keys.set("model.rotary_scaling.kind", "ntk", "test");
    read.keys.set("model.rotary_scaling.factor", 4, "test");
    const double size = read.keys.real("model.rotary_share") * read.keys.real("model.head_size");
    ASSERT_GT(size, 2) << family;
    for (const std::string& like : {std::string(), config.dump()}) {
      const ModelKeys again = read_config(write_config(*read.family, read.keys, like, "float32"), "config.json").keys;
      EXPECT_EQ(again.text("model.rotary_scaling.kind"), "none") << family;
      EXPECT_DOUBLE_EQ(again.real("model.rotary_theta"), 10000 * std::pow(4, size / (size - 2))) << family;
    }
  }
}

TEST(WriteConfig, BothNamesOfTheTypeAreChanged) {
  Json config = golden_config("mixtral");
  config["dtype"] = "float32", config["torch_dtype"] = "float32";
  const ForeignConfig read = read_config(config.dump(), "config.json");
  const Json written = Json::parse(write_config(*read.family, read.keys, config.dump(), "bfloat16"));
  EXPECT_EQ(written["dtype"], "bfloat16");
  EXPECT_EQ(written["torch_dtype"], "bfloat16");
}

TEST(WriteConfig, NewConfigDescribesTheSameModel) {
  for (const Family& family : families()) {
    const ModelKeys keys = keys_of_config(golden_config(std::string(family.model_type)));
    const std::string text = write_config(family, keys, "", "float32");
    const ForeignConfig again = read_config(text, "config.json");
    EXPECT_EQ(again.family, &family);
    EXPECT_EQ(ModelKeys::differences(keys, again.keys), std::vector<std::string>()) << family.model_type;
    EXPECT_EQ(again.dtype, "float32");
  }
}

TEST(WriteConfig, ModelThatTheFamilyCannotExpressIsRefusedByKey) {
  ForeignConfig read = read_config(golden_config("mixtral").dump(), "config.json");
  read.keys.set("model.moe.score", "sigmoid", "test");
  expect_contains(message_of(ExitCode::data, [&] { write_config(*read.family, read.keys, "", "float32"); }),
                  "a config.json of mixtral cannot express the model: model.moe.score: \"sigmoid\" -> \"softmax\"");
}

// transformers would rotate whole heads of a Mixtral model, whatever partial_rotary_factor says.
TEST(WriteConfig, PartialRotationIsRefusedForFamiliesThatRotateWholeHeads) {
  ForeignConfig read = read_config(golden_config("mixtral").dump(), "config.json");
  read.keys.set("model.rotary_share", 0.5, "test");
  expect_contains(message_of(ExitCode::data, [&] { write_config(*read.family, read.keys, "", "float32"); }),
                  "a config.json of mixtral: partial_rotary_factor is 0.5, expected 1");
}

// All families are decoders. Models whose experts choose tokens (model.moe.router: expert_choice) are encoders, so
// exports refuse them, too.
TEST(WriteConfig, EncoderIsRefusedByKey) {
  for (const Family& family : families()) {
    ModelKeys keys = keys_of_config(golden_config(std::string(family.model_type)));
    keys.set("model.kind", "encoder", "test");
    expect_contains(message_of(ExitCode::data, [&] { write_config(family, keys, "", "float32"); }),
                    "cannot express the model: model.kind: \"encoder\" -> \"decoder\"");
  }
}

// The reader of config.json finds the problem when it checks the written config.
TEST(WriteConfig, ModelThatTheFamilyDoesNotAcceptIsRefusedWithOtherFamilies) {
  const ForeignConfig read = read_config(golden_config("mixtral").dump(), "config.json");
  const std::string message =
      message_of(ExitCode::data, [&] { write_config(find_family("llama4_text", "test"), read.keys, "", "float32"); });
  expect_contains(message, "a config.json of llama4_text: num_experts_per_tok is 2, expected 1");
  expect_contains(message, "; `hexad export --family X` writes another family: ");
  expect_contains(message, "mixtral");
}

// Before and after the change, layer 0 is dense and layer 1 has experts. Only the prediction block, layer 2, changes.
TEST(WriteConfig, ExpertsOfPredictionBlocksThatTheFamilyCannotExpressAreRefused) {
  Json config = golden_config("deepseek_v3_released");
  config["num_nextn_predict_layers"] = 1;
  ForeignConfig read = read_config(config.dump(), "config.json");
  EXPECT_TRUE(read.keys.is_moe(2));
  read.keys.set("model.moe.dense_layers", 0, "test"), read.keys.set("model.moe.every", 2, "test");
  EXPECT_FALSE(read.keys.is_moe(2));
  expect_contains(message_of(ExitCode::data, [&] { write_config(*read.family, read.keys, config.dump(), ""); }),
                  "a config.json of deepseek_v3 cannot express the model: ");
}

}  // namespace
}  // namespace hexad::tests
