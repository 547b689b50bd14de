// Folders of gpt-oss models with random weights, stored in bf16 and in MXFP4.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "framework/io/checkpoint.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/config_json.h"
#include "tools/interop/elements.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"
#include "tools/interop/mxfp4.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
using namespace tensor;
namespace {

constexpr int64_t layers = 2, hidden = 32, width = 32, experts = 4, vocab = 48, query_width = 32, key_width = 16;

/// Generator of numbers that are easy to distinguish and exact in bf16: multiples of 1/8 from -8 to 7.875, in a fixed
/// order.
class Numbers {
 public:
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int>(state_ >> 25) - 64) / 8;
  }
  uint8_t byte() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<uint8_t>(state_ >> 24);
  }
  RawTensor tensor(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float> values(count);
    for (float& v : values) v = next();
    RawTensor t{"BF16", shape, std::string(2 * count, '\0')};
    convert(reinterpret_cast<std::byte*>(t.bytes.data()), Element::bf16,
            reinterpret_cast<const std::byte*>(values.data()), Element::f32, count);
    return t;
  }
  /// Returns random bytes. `mask` selects the bits that may be set.
  RawTensor bytes(const std::vector<int64_t>& shape, uint8_t mask) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    RawTensor t{"U8", shape, std::string(count, '\0')};
    for (char& c : t.bytes) c = static_cast<char>(byte() & mask);
    return t;
  }

 private:
  uint32_t state_ = 7;
};

RawTensors everything_but_expert_matrices(Numbers& numbers) {
  RawTensors all;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    all[name] = numbers.tensor(shape);
  };
  add("model.embed_tokens.weight", {vocab, hidden});
  add("model.norm.weight", {hidden});
  add("lm_head.weight", {vocab, hidden});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string at = cat("model.layers.", l, ".");
    add(at + "input_layernorm.weight", {hidden});
    add(at + "post_attention_layernorm.weight", {hidden});
    for (const auto& [name, size] : {std::pair{"q", query_width}, {"k", key_width}, {"v", key_width}}) {
      add(cat(at, "self_attn.", name, "_proj.weight"), {size, hidden});
      add(cat(at, "self_attn.", name, "_proj.bias"), {size});
    }
    add(at + "self_attn.o_proj.weight", {hidden, query_width});
    add(at + "self_attn.o_proj.bias", {hidden});
    add(at + "self_attn.sinks", {4});
    add(at + "mlp.router.weight", {experts, hidden});
    add(at + "mlp.router.bias", {experts});
    add(at + "mlp.experts.gate_up_proj_bias", {experts, 2 * width});
    add(at + "mlp.experts.down_proj_bias", {experts, hidden});
  }
  return all;
}

RawTensors in_bf16() {
  Numbers numbers;
  RawTensors all = everything_but_expert_matrices(numbers);
  for (int64_t l = 0; l < layers; ++l) {
    all[cat("model.layers.", l, ".mlp.experts.gate_up_proj")] = numbers.tensor({experts, hidden, 2 * width});
    all[cat("model.layers.", l, ".mlp.experts.down_proj")] = numbers.tensor({experts, width, hidden});
  }
  return all;
}

RawTensors in_mxfp4() {
  Numbers numbers;
  RawTensors all = everything_but_expert_matrices(numbers);
  for (int64_t l = 0; l < layers; ++l)
    for (const auto& [name, outputs] : {std::pair{"gate_up_proj", 2 * width}, {"down_proj", hidden}}) {
      const std::string at = cat("model.layers.", l, ".mlp.experts.", name);
      all[at + "_blocks"] = numbers.bytes({experts, outputs, 1, mxfp4::block_bytes}, 0xff);
      all[at + "_scales"] = numbers.bytes({experts, outputs, 1}, 0x7f);
    }
  return all;
}

/// Model folder inside a scratch folder, with the given tensors and the golden config, which `change` may edit.
struct Folder {
  explicit Folder(const RawTensors& tensors, const std::function<void(Json&)>& change = {}) {
    std::filesystem::create_directory(path);
    Json config = Json::parse(read_text(golden_folder("gpt_oss_released") + "/config.json"));
    if (change) change(config);
    write_text(path + "/config.json", config.dump(2));
    write_tensors(path + "/model.safetensors", tensors);
  }

  Scratch scratch;
  const std::string path = scratch / "model";
};

void quantized(Json& config) { config["quantization_config"] = {{"quant_method", "mxfp4"}}; }

std::vector<double> values(const std::string& folder, const std::string& name) {
  io::Checkpoint checkpoint = io::Checkpoint::open(folder, io::Check::full);
  device::DeviceContext memory;
  return values_of(checkpoint.read(name, io::Kind::main, memory));
}

double element(const RawTensor& tensor, int64_t index) {
  float value = 0;
  convert(reinterpret_cast<std::byte*>(&value), Element::f32,
          reinterpret_cast<const std::byte*>(tensor.bytes.data()) + 2 * index, Element::bf16, 1);
  return static_cast<double>(value);
}

TEST(GptOss, ImportSeparatesInterleavedGatesAndUpsAndTransposes) {
  const RawTensors tensors = in_bf16();
  const Folder folder(tensors);
  const std::string target = folder.scratch / "imported";
  import_model(folder.path, target);
  const std::vector<double> weight = values(target, "layers.1.moe.experts.gate_up.weight"),
                            bias = values(target, "layers.1.moe.experts.gate_up.bias"),
                            down = values(target, "layers.1.moe.experts.down.weight");
  const RawTensor& gate_up = tensors.at("model.layers.1.mlp.experts.gate_up_proj");
  const RawTensor& gate_up_bias = tensors.at("model.layers.1.mlp.experts.gate_up_proj_bias");
  const RawTensor& down_proj = tensors.at("model.layers.1.mlp.experts.down_proj");
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t i = 0; i < width; ++i)
      for (int64_t half : {0, 1}) {
        const int64_t row = (e * 2 + half) * width + i;
        ASSERT_EQ(bias[row], element(gate_up_bias, e * 2 * width + 2 * i + half));
        for (int64_t h = 0; h < hidden; ++h) {
          ASSERT_EQ(weight[row * hidden + h], element(gate_up, (e * hidden + h) * 2 * width + 2 * i + half));
          ASSERT_EQ(down[(e * hidden + h) * width + i], element(down_proj, (e * width + i) * hidden + h));
        }
      }
}

TEST(GptOss, ExportHasTheBytesOfTheOrigin) {
  const RawTensors tensors = in_bf16();
  const Folder folder(tensors);
  import_model(folder.path, folder.scratch / "imported");
  io::Checkpoint checkpoint = io::Checkpoint::open(folder.scratch / "imported", io::Check::full);
  export_model(checkpoint, folder.scratch / "exported");
  const RawTensors exported = tensors_of(folder.scratch / "exported");
  ASSERT_EQ(exported.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(exported.contains(name)) << name;
    EXPECT_EQ(exported.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(exported.at(name).bytes, tensor.bytes) << name;
  }
  EXPECT_EQ(read_text(folder.scratch / "exported/config.json"), read_text(folder.path + "/config.json"));
}

// Experts are exported one at a time.
TEST(GptOss, ExportNamesTheExpertOfAValueBeyondTheRange) {
  RawTensors tensors = in_bf16();
  const int64_t expert = 2, output = 3, input = 1;
  std::string& bytes = tensors["model.layers.0.mlp.experts.down_proj"].bytes;
  bytes.replace(2 * ((expert * width + input) * hidden + output), 2, "\x80\x47");  // 65536 in bf16
  const Folder folder(tensors);
  import_model(folder.path, folder.scratch / "imported");
  io::Checkpoint checkpoint = io::Checkpoint::open(folder.scratch / "imported", io::Check::full);
  const std::string message =
      message_of(ExitCode::data, [&] { export_model(checkpoint, folder.scratch / "exported", {.dtype = "f16"}); });
  const std::string place = cat(" at element ", output * width + input, " of region [", expert, ", 0, 0]+[1, ");
  EXPECT_NE(message.find(place), std::string::npos) << message;
}

TEST(GptOss, Mxfp4GivesTheScaledValuesAndIsExportedAsBf16) {
  const RawTensors tensors = in_mxfp4();
  const Folder folder(tensors, quantized);
  const std::string target = folder.scratch / "imported";
  const ImportReport report = import_model(folder.path, target);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(report.notes[0], "experts in MXFP4 were converted to bf16, with the same values; an export will have bf16");
  const std::vector<double> weight = values(target, "layers.0.moe.experts.gate_up.weight");
  const RawTensor& blocks = tensors.at("model.layers.0.mlp.experts.gate_up_proj_blocks");
  const RawTensor& scales = tensors.at("model.layers.0.mlp.experts.gate_up_proj_scales");
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t i = 0; i < width; ++i)
      for (int64_t half : {0, 1}) {
        const int64_t theirs = e * 2 * width + 2 * i + half, ours = (e * 2 + half) * width + i;
        const double scale = std::exp2(static_cast<uint8_t>(scales.bytes[theirs]) - 127);
        for (int64_t h = 0; h < hidden; ++h) {
          const auto pair = static_cast<uint8_t>(blocks.bytes[theirs * mxfp4::block_bytes + h / 2]);
          const auto four = static_cast<uint8_t>(h % 2 == 0 ? pair & 15 : pair >> 4);
          ASSERT_EQ(weight[ours * hidden + h], scale * static_cast<double>(mxfp4::value_of(four)));
        }
      }

  io::Checkpoint checkpoint = io::Checkpoint::open(target, io::Check::full);
  export_model(checkpoint, folder.scratch / "exported");
  const RawTensors exported = tensors_of(folder.scratch / "exported");
  const RawTensor& gate_up = exported.at("model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(gate_up.dtype, "BF16");
  EXPECT_EQ(gate_up.shape, (std::vector<int64_t>{experts, hidden, 2 * width}));
  EXPECT_FALSE(Json::parse(read_text(folder.scratch / "exported/config.json")).contains("quantization_config"));
  import_model(folder.scratch / "exported", folder.scratch / "again");
  EXPECT_EQ(values(folder.scratch / "again", "layers.0.moe.experts.gate_up.weight"), weight);
}

TEST(GptOss, BadAndMissingScalesAreRefused) {
  RawTensors tensors = in_mxfp4();
  const std::string scales = "model.layers.0.mlp.experts.down_proj_scales";
  const auto refusal = [&] {
    const Folder folder(tensors, quantized);
    return message_of(ExitCode::data, [&] { import_model(folder.path, folder.scratch / "imported"); });
  };
  tensors[scales].bytes[5] = static_cast<char>(0xff);
  EXPECT_NE(refusal().find("has NaN or infinity at element 160"), std::string::npos) << refusal();
  tensors[scales].shape = {experts, 1, hidden};
  EXPECT_NE(refusal().find("is in MXFP4: its scales are U8"), std::string::npos) << refusal();
  tensors.erase(scales);
  EXPECT_NE(refusal().find(cat("missing tensor '", scales, "'")), std::string::npos) << refusal();
}

TEST(GptOss, ConfigBecomesTheKeysOfTheRecipe) {
  const auto keys = [](const std::function<void(Json&)>& change) {
    Json config = Json::parse(read_text(golden_folder("gpt_oss_released") + "/config.json"));
    change(config);
    return read_config(config.dump(), "config.json").keys;
  };
  const ModelKeys usual = keys([](Json&) {});
  EXPECT_EQ(usual.integer("model.window"), 6);
  EXPECT_EQ(usual.integer("model.full_attention_every"), 2);
  EXPECT_EQ(usual.real("model.swiglu_limit"), 7.0);
  EXPECT_FALSE(usual.flag("model.yarn.truncate"));
  for (const char* key : {"model.sinks", "model.qkv_bias", "model.o_bias", "model.moe.expert_bias",
                          "model.moe.router_bias", "model.moe.normalize"})
    EXPECT_TRUE(usual.flag(key)) << key;
  const auto with_types = [&](const std::vector<std::string>& types) {
    return keys([&](Json& config) { config["layer_types"] = types; });
  };
  EXPECT_EQ(with_types({"sliding_attention", "sliding_attention"}).integer("model.full_attention_every"), 0);
  EXPECT_TRUE(with_types({"full_attention", "full_attention"})["model.window"].is_null());
  const auto refusal = [&](const std::vector<std::string>& types) {
    return message_of(ExitCode::data, [&] { with_types(types); });
  };
  EXPECT_NE(refusal({"full_attention", "sliding_attention"}).find("are not every n-th block for any n: 1; expected"),
            std::string::npos);
  EXPECT_NE(refusal({"full_attention"}).find("expected an array of 2 entries"), std::string::npos);
  EXPECT_NE(refusal({"sliding_attention", "linear"}).find("expected full_attention or sliding_attention"),
            std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
