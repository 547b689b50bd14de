// Tests that an import refuses damaged and dangerous folders, names the tensor, key or file in its message, and writes
// nothing. Two tests check the target folder of an import.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
namespace {

namespace fs = std::filesystem;

constexpr const char* gate = "model.layers.1.block_sparse_moe.gate.weight";

/// Imports a folder. Expects Error(data) with all `parts` in its message, and no files left behind.
void expect_refused(const ForeignFolder& model, const std::vector<std::string>& parts) {
  const std::string message = message_of(ExitCode::data, [&] { import_model(model.path(), model.beside("out")); });
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), message.npos) << message << "\ndoes not contain: " << part;
  size_t entries = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(model.path()).parent_path())) {
    ++entries;
    EXPECT_EQ(entry.path().filename(), "model");
  }
  EXPECT_EQ(entries, 1u) << "files were left behind";
}

void expect_refused_after(const std::function<void(RawTensors&)>& change, const std::vector<std::string>& parts) {
  const ForeignFolder model("mixtral");
  model.change_tensors(change);
  expect_refused(model, parts);
}

TEST(ImportRefuses, TruncatedShard) {
  const ForeignFolder model("mixtral");
  const std::string path = model.path() + "/model.safetensors";
  fs::resize_file(path, fs::file_size(path) - 100);
  expect_refused(model, {path, "model.layers.1.self_attn.v_proj.weight"});  // the first truncated tensor
}

TEST(ImportRefuses, HugeHeader) {
  const ForeignFolder model("mixtral");
  const std::string path = model.path() + "/model.safetensors";
  const uint64_t length = uint64_t{1} << 40;
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  write_text(path, start + "{}");
  expect_refused(model, {path, "claims a header of 1099511627776 bytes"});
}

TEST(ImportRefuses, MissingTensor) {
  expect_refused_after([](RawTensors& tensors) { tensors.erase(gate); },
                       {"missing tensor", gate, "expected every tensor of the model in config.json"});
}

TEST(ImportRefuses, UnknownTensor) {
  expect_refused_after(
      [](RawTensors& tensors) { tensors["model.layers.1.self_attn.sinks"] = tensors.at("model.norm.weight"); },
      {"unknown tensor 'model.layers.1.self_attn.sinks'"});
}

TEST(ImportRefuses, WrongDtype) {
  expect_refused_after(
      [](RawTensors& tensors) {
        tensors.at(gate) = {"I32", {4, 16}, std::string(256, '\0')};
      },
      {gate, "is I32, expected F32, BF16 or F16"});
}

TEST(ImportRefuses, ShapeThatContradictsTheConfig) {
  expect_refused_after(
      [](RawTensors& tensors) {
        tensors.at(gate).shape = {16, 4};
      },
      {gate, "is [16, 4], expected [4, 16] by config.json"});
}

TEST(ImportRefuses, WeightsThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_refused_after(
        [&](RawTensors& tensors) { std::memcpy(tensors.at(gate).bytes.data() + 4 * 5, &bad, sizeof bad); },
        {gate, "has NaN or infinity at element 5"});
}

TEST(ImportRefuses, MissingIndex) {
  const ForeignFolder model("mixtral");
  model.divide();
  fs::remove(model.path() + "/model.safetensors.index.json");
  expect_refused(model, {"has model-00001-of-00002.safetensors but no model.safetensors.index.json"});
}

TEST(ImportRefuses, MissingShard) {
  const ForeignFolder model("mixtral");
  model.divide();
  fs::remove(model.path() + "/model-00002-of-00002.safetensors");
  expect_refused(model, {"model-00002-of-00002.safetensors", "No such file"});
}

TEST(ImportRefuses, TensorInTwoShards) {
  const ForeignFolder model("mixtral");
  model.divide();
  const std::string path = model.path() + "/model-00002-of-00002.safetensors";
  RawTensors second = read_tensors(path);
  const RawTensors first = read_tensors(model.path() + "/model-00001-of-00002.safetensors");
  second.insert(*first.begin());
  write_tensors(path, second);
  expect_refused(model, {path, first.begin()->first, "is also in model-00001-of-00002.safetensors"});
}

TEST(ImportRefuses, TensorTwiceInAShard) {
  const ForeignFolder model("mixtral");
  const std::string path = model.path() + "/model.safetensors", other = "model.layers.0.block_sparse_moe.gate.weight";
  std::string bytes = read_text(path);
  bytes.replace(bytes.find(gate), other.size(), other);
  write_text(path, bytes);
  expect_refused(model, {path, other, "appears twice"});
}

TEST(ImportRefuses, IndexThatContradictsTheShards) {
  const ForeignFolder model("mixtral");
  model.divide();
  const std::string path = model.path() + "/model.safetensors.index.json";
  Json index = Json::parse(read_text(path));
  index["weight_map"][gate] = "model-00002-of-00002.safetensors";
  index["weight_map"]["lm_head.weight"] = "model-00002-of-00002.safetensors";
  write_text(path, index.dump());
  expect_refused(
      model, {path, "lists 'lm_head.weight' in model-00002-of-00002.safetensors, but the tensor is in model-00001"});
}

TEST(ImportRefuses, IndexBesideASingleFileThatItDoesNotList) {
  const ForeignFolder model("mixtral");
  model.divide();
  fs::copy_file(golden_folder("mixtral") + "/model.safetensors", model.path() + "/model.safetensors");
  expect_refused(model, {model.path() + ": has both model.safetensors and model.safetensors.index.json",
                         "remove the outdated file"});
}

TEST(ImportRefuses, PathsThatLeaveTheFolder) {
  for (const std::string name : {"../outside.safetensors", "/etc/outside.safetensors"}) {
    const ForeignFolder model("mixtral");
    model.divide();
    const std::string path = model.path() + "/model.safetensors.index.json";
    Json index = Json::parse(read_text(path));
    index["weight_map"][gate] = name;
    write_text(path, index.dump());
    expect_refused(model, {cat("'", name, "' is not a plain file name")});
  }
}

TEST(ImportRefuses, LinksThatLeaveTheFolder) {
  const ForeignFolder model("mixtral");
  fs::remove(model.path() + "/model.safetensors");
  fs::create_symlink(golden_folder("mixtral") + "/model.safetensors", model.path() + "/model.safetensors");
  expect_refused(model, {model.path() + "/model.safetensors: is a link to", "outside of the folder"});
}

TEST(ImportRefuses, LinkedTokenizersThatLeaveTheFolder) {
  const ForeignFolder model("mixtral");
  fs::create_symlink("/etc/passwd", model.path() + "/tokenizer.json");
  expect_refused(model, {model.path() + "/tokenizer.json: is a link to /etc/passwd"});
}

TEST(ImportRefuses, FoldersOfTemplatesThatAreLinks) {
  const ForeignFolder model("mixtral"), other("mixtral");
  write_text(other.path() + "/a.jinja", "{{ messages }}");
  fs::create_directory_symlink(other.path(), model.path() + "/additional_chat_templates");
  expect_refused(model, {model.path() + "/additional_chat_templates: is a link, expected a folder"});
}

// The file is sparse. It is refused before the weights are converted, so no folder is made.
TEST(ImportRefuses, HugeTokenizers) {
  const ForeignFolder model("mixtral");
  write_text(model.path() + "/tokenizer.json", "{}");
  fs::resize_file(model.path() + "/tokenizer.json", (uintmax_t{1} << 30) + 1);
  const auto import = [&] { import_model(model.path(), model.beside("parent") + "/out"); };
  const std::string message = message_of(ExitCode::data, import);
  EXPECT_NE(message.find("/tokenizer.json: has 1073741825 bytes, expected at most 1073741824"), message.npos)
      << message;
  EXPECT_FALSE(fs::exists(model.beside("parent"))) << "the parent folder must be made only with the target";
}

TEST(ImportRefuses, Pickles) {
  const ForeignFolder model("mixtral");
  fs::remove(model.path() + "/model.safetensors");
  write_text(model.path() + "/pytorch_model.bin", "\x80\x02");
  expect_refused(model, {"pytorch_model.bin is a pickle file", "expected model.safetensors"});
}

TEST(ImportRefuses, CheckpointsOfHexad) {
  const ForeignFolder model("mixtral");
  fs::remove(model.path() + "/model.safetensors");
  write_text(model.path() + "/manifest.json", "{}");
  write_text(model.path() + "/shard-00000-of-00001.safetensors", "");
  expect_refused(model, {"is a checkpoint of Hexad, expected a Hugging Face model", "a checkpoint needs no import"});
}

TEST(ImportRefuses, UnknownFamily) {
  const ForeignFolder model("mixtral");
  model.change_config([](Json& config) { config["model_type"] = "mamba"; });
  expect_refused(model, {"config.json: model_type is 'mamba', an unknown family", "qwen3_moe"});
}

TEST(ImportRefuses, ConfigThatIsNoJson) {
  const ForeignFolder model("mixtral");
  write_text(model.path() + "/config.json", "{\"model_type\": ");
  expect_refused(model, {model.path() + "/config.json", "not valid JSON"});
}

TEST(ImportRefuses, HeadThatDiffersFromItsTiedEmbedding) {
  const ForeignFolder model("gpt2");
  model.change_tensors([](RawTensors& tensors) {
    tensors["lm_head.weight"] = tensors.at("transformer.wte.weight");
    tensors.at("lm_head.weight").bytes[0] ^= 1;
  });
  expect_refused(model, {"lm_head.weight", "differs from 'transformer.wte.weight'"});
}

TEST(ImportRefuses, HeadOfOddSize) {
  const ForeignFolder model("mixtral");
  model.change_config([](Json& config) { config["head_dim"] = 5; });
  expect_refused(model, {"config.json", "5 of a head's 5 dimensions would rotate"});
}

TEST(ImportRefuses, DenseBlocksWithoutWidth) {
  const ForeignFolder model("llama");
  model.change_config([](Json& config) { config["intermediate_size"] = 0; });
  expect_refused(
      model, {"config.json", "model.mlp_hidden (0) must be at least 1", "; intermediate_size gives model.mlp_hidden"});
}

TEST(ImportRefuses, PartialRotationOfAFractionOfADimension) {
  const ForeignFolder model("glm4_moe");
  model.change_config([](Json& config) { config["rope_parameters"]["partial_rotary_factor"] = 0.7; });
  expect_refused(model, {"config.json", "5.6 of a head's 8 dimensions would rotate, expected an even number"});
}

TEST(ImportRefuses, MoreBlocksThanTheConfigCounts) {
  const ForeignFolder model("glm4_moe");
  model.change_tensors([](RawTensors& tensors) {
    tensors["model.layers.2.input_layernorm.weight"] = tensors.at("model.layers.1.input_layernorm.weight");
  });
  expect_refused(model, {"unknown tensor 'model.layers.2.input_layernorm.weight'"});
}

TEST(Import, TargetThatIsNotEmptyIsRefused) {
  const ForeignFolder model("mixtral");
  fs::create_directory(model.beside("out"));
  write_text(model.beside("out") + "/mine", "text");
  const std::string message = message_of(ExitCode::usage, [&] { import_model(model.path(), model.beside("out")); });
  EXPECT_EQ(message, model.beside("out") + ": is not empty, expected a new or empty folder");
  EXPECT_EQ(read_text(model.beside("out") + "/mine"), "text");
}

TEST(Import, EmptyTargetIsFilled) {
  const ForeignFolder model("mixtral");
  fs::create_directory(model.beside("out"));
  import_model(model.path(), model.beside("out") + "/");
  EXPECT_TRUE(fs::exists(model.beside("out") + "/manifest.json"));
}

}  // namespace
}  // namespace hexad::tests
