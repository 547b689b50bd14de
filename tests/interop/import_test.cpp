// Imports of foreign checkpoints. Most tests check that another form of a checkpoint gives the same imported model.
#include "tools/interop/import_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "framework/io/checkpoint.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/elements.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
using namespace tensor;
namespace {

using TensorsByName = std::map<std::string, std::vector<double>>;

/// Returns all tensors of an imported model, by kind and name.
TensorsByName imported_tensors(const std::string& folder) {
  io::Checkpoint checkpoint = io::Checkpoint::open(folder, io::Check::full);
  device::DeviceContext memory;
  TensorsByName all;
  for (const io::TensorRecord& record : checkpoint.manifest().tensors)
    all[cat(io::name_of(record.kind), ":", record.name)] = values_of(checkpoint.read(record.name, record.kind, memory));
  return all;
}

TensorsByName imported(const ForeignFolder& model, const std::string& name, const ImportOptions& options = {}) {
  import_model(model.path(), model.beside(name), options);
  return imported_tensors(model.beside(name));
}

/// Converts the f32 weights to `type`.
void change_type(RawTensors& tensors, Element type) {
  for (auto& [name, tensor] : tensors) {
    const int64_t count = static_cast<int64_t>(tensor.bytes.size()) / 4;
    std::string bytes(static_cast<size_t>(count * bytes_of(type)), '\0');
    convert(reinterpret_cast<std::byte*>(bytes.data()), type, reinterpret_cast<const std::byte*>(tensor.bytes.data()),
            Element::f32, count);
    tensor.bytes = bytes, tensor.dtype = stored(type).name;
  }
}

/// Replaces the expert tensors of each block with fused tensors. The fused tensors and the router get the names that
/// Transformers 5 uses in memory.
void fuse_mixtral(RawTensors& tensors) {
  for (int layer = 0; layer < 2; ++layer) {
    const std::string old_prefix = cat("model.layers.", layer, ".block_sparse_moe.");
    const std::string prefix = cat("model.layers.", layer, ".mlp.");
    RawTensor gate_up{"F32", {4, 16, 16}, ""}, down{"F32", {4, 16, 8}, ""};
    for (int expert = 0; expert < 4; ++expert) {
      const std::string of_expert = cat(old_prefix, "experts.", expert, ".");
      gate_up.bytes += tensors.at(of_expert + "w1.weight").bytes + tensors.at(of_expert + "w3.weight").bytes;
      down.bytes += tensors.at(of_expert + "w2.weight").bytes;
      for (const char* w : {"w1.weight", "w2.weight", "w3.weight"}) tensors.erase(of_expert + w);
    }
    tensors[prefix + "experts.gate_up_proj"] = gate_up;
    tensors[prefix + "experts.down_proj"] = down;
    tensors[prefix + "gate.weight"] = tensors.at(old_prefix + "gate.weight");
    tensors.erase(old_prefix + "gate.weight");
  }
}

TEST(Import, FolderHasCheckpointAndRecipe) {
  const ForeignFolder model("mixtral");
  write_text(model.path() + "/tokenizer.json", "{}");
  write_text(model.path() + "/chat_template.jinja", "{{ messages }}");
  write_text(model.path() + "/modeling_mixtral.py", "import os");
  const ImportReport report = import_model(model.path(), model.beside("out"));
  EXPECT_EQ(report.model_type, "mixtral");
  EXPECT_EQ(report.tensors, static_cast<int64_t>(tensors_of(model.path()).size()));
  EXPECT_EQ(report.files,
            (std::vector<std::string>{"chat_template.jinja", "generation_config.json", "tokenizer.json"}));
  const auto recipe = recipe_of(read_text(model.beside("out") + "/recipe.yaml"),
                                {"data.synthetic=true", "train.steps=10", "optim.schedule=constant"});
  EXPECT_EQ(recipe.model.moe.experts, 4);
  EXPECT_EQ(recipe.train.init_from, model.beside("out"));
  const std::string kept = model.beside("out") + "/hugging_face/";
  EXPECT_EQ(read_text(kept + "config.json"), read_text(model.path() + "/config.json"));
  EXPECT_EQ(read_text(kept + "tokenizer.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(kept + "modeling_mixtral.py"));
}

TEST(Import, TokenizersAndTemplatesOfEveryNameAreCopied) {
  const ForeignFolder model("mixtral");
  const std::vector<std::string> names{"additional_chat_templates/rag.jinja", "tiktoken.model", "tokenizer.model.v3",
                                       "tool_use.jinja"};
  std::filesystem::create_directory(model.path() + "/additional_chat_templates");
  for (const std::string& name : names) write_text(model.path() + "/" + name, name);
  for (const char* name : {"README.md", "LICENSE", ".gitattributes", "modeling.py", "tok\x1b.cfg"})
    write_text(model.path() + "/" + name, "");
  const ImportReport report = import_model(model.path(), model.beside("out"));
  for (const std::string& name : names) {
    EXPECT_NE(std::ranges::find(report.files, name), report.files.end()) << name;
    EXPECT_EQ(read_text(model.beside("out") + "/hugging_face/" + name), name);
  }
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(report.notes[0], "not copied: files 'modeling.py', 'tok\\x1b.cfg'");
}

TEST(Import, FusedExpertsGiveTheSameModel) {
  const ForeignFolder model("mixtral");
  const TensorsByName separate = imported(model, "separate");
  model.change_tensors(fuse_mixtral);
  EXPECT_EQ(imported(model, "fused"), separate);
}

TEST(Import, ShardsGiveTheSameModel) {
  const ForeignFolder model("mixtral");
  const TensorsByName single = imported(model, "single");
  model.divide();
  EXPECT_EQ(imported(model, "sharded"), single);
}

TEST(Import, SmallShardsOfTheTargetGiveTheSameModel) {
  const ForeignFolder model("mixtral");
  const TensorsByName single = imported(model, "single");
  EXPECT_EQ(imported(model, "many", {.shard_bytes = 4000}), single);
  EXPECT_GT(io::Checkpoint::open(model.beside("many"), io::Check::full).manifest().shards.size(), 3u);
}

TEST(Import, NamesWithoutTheModelsPrefixAreFound) {
  const ForeignFolder model("gpt2");
  const TensorsByName full = imported(model, "full");
  model.change_tensors([](RawTensors& tensors) {
    RawTensors bare;
    for (const auto& [name, tensor] : tensors) bare[name.substr(std::string("transformer.").size())] = tensor;
    bare["h.0.attn.bias"] = {"BOOL", {1, 1, 2, 2}, std::string(4, '\1')};  // the attention mask in older files
    tensors = bare;
  });
  EXPECT_EQ(imported(model, "bare"), full);
}

TEST(Import, TransposedAndJoinedProjectionsAreSeparated) {
  const ForeignFolder model("gpt2");
  const RawTensor joined = tensors_of(model.path()).at("transformer.h.1.attn.c_attn.weight");  // [16, 48]
  std::vector<float> values(joined.bytes.size() / 4);
  std::memcpy(values.data(), joined.bytes.data(), joined.bytes.size());
  const TensorsByName all = imported(model, "out");
  const std::vector<double>& keys = all.at("main:layers.1.attention.k.weight");  // [16, 16]
  for (size_t out = 0; out < 16; ++out)
    for (size_t in = 0; in < 16; ++in)
      ASSERT_EQ(keys[out * 16 + in], static_cast<double>(values[in * 48 + 16 + out])) << out << " " << in;
}

TEST(Import, Bf16RemainsBf16AndF16BecomesF32) {
  for (const Element type : {Element::bf16, Element::f16}) {
    const ForeignFolder model("mixtral");
    model.change_tensors([&](RawTensors& tensors) { change_type(tensors, type); });
    import_model(model.path(), model.beside("out"));
    const auto checkpoint = io::Checkpoint::open(model.beside("out"), io::Check::full);
    for (const io::TensorRecord& record : checkpoint.manifest().tensors)
      EXPECT_EQ(record.dtype, type == Element::bf16 ? Dtype::bf16 : Dtype::f32) << record.name;
    const RawTensor norm = tensors_of(model.path()).at("model.norm.weight");
    for (size_t i = 0; i < 16; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, norm.bytes.data() + 2 * i, 2);
      const float expected = type == Element::f16 ? from_half(bits) : static_cast<float>(std::bit_cast<bf16>(bits));
      EXPECT_EQ(imported_tensors(model.beside("out")).at("main:norm.weight")[i], static_cast<double>(expected));
    }
  }
}

TEST(Import, EqualTiedHeadIsAccepted) {
  const ForeignFolder model("gpt2");
  const TensorsByName tied = imported(model, "tied");
  model.change_tensors([](RawTensors& tensors) { tensors["lm_head.weight"] = tensors.at("transformer.wte.weight"); });
  EXPECT_EQ(imported(model, "stored_twice"), tied);
}

TEST(Import, BlocksThatPredictFurtherTokensAreNotRead) {
  const ForeignFolder model("minimax_m2");
  const TensorsByName plain = imported(model, "plain");
  model.change_config([](Json& config) { config["num_mtp_modules"] = 1; });
  model.change_tensors([](RawTensors& tensors) {
    tensors["model.layers.2.input_layernorm.weight"] = tensors.at("model.layers.1.input_layernorm.weight");
  });
  EXPECT_EQ(imported(model, "with_prediction"), plain);
}

TEST(Import, LinksInsideTheFolderAreFollowed) {
  const ForeignFolder model("mixtral");
  const TensorsByName plain = imported(model, "plain");
  std::filesystem::rename(model.path() + "/model.safetensors", model.path() + "/weights");
  std::filesystem::create_symlink("weights", model.path() + "/model.safetensors");
  EXPECT_EQ(imported(model, "linked"), plain);
}

}  // namespace
}  // namespace hexad::tests
