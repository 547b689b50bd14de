// Order of the rows of latent attention, and import and export of a model with latent attention.
#include "tools/interop/latent_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace interop;
namespace {

using Order = std::vector<int64_t>;

constexpr LatentRows small{.heads = 2, .kv_rank = 3, .nope = 1, .rope = 4, .value = 2};

TEST(LatentRows, RotaryPartComesFirstAndInHalves) { EXPECT_EQ(small.queries(), (Order{1, 3, 2, 4, 0, 6, 8, 7, 9, 5})); }

TEST(LatentRows, LatentPrecedesTheSharedRotaryPart) { EXPECT_EQ(small.down(), (Order{0, 1, 2, 3, 5, 4, 6})); }

TEST(LatentRows, KeysOfAllHeadsPrecedeTheValues) { EXPECT_EQ(small.up(), (Order{0, 3, 1, 2, 4, 5})); }

TEST(HeadRows, PairsBecomeHalvesInEachHead) {
  EXPECT_EQ(halves_of_pairs(2, 4, 4), (Order{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(halves_of_pairs(1, 6, 4), (Order{0, 2, 1, 3, 4, 5})) << "rows that do not rotate keep their positions";
}

TEST(HeadRows, ScatterUndoesGather) {
  const Order order = small.queries();
  std::vector<float> before(2 * order.size()), moved(before.size()), after(before.size());
  for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i);
  gather_rows(reinterpret_cast<std::byte*>(moved.data()), reinterpret_cast<const std::byte*>(before.data()), order, 8);
  EXPECT_EQ(moved[0], before[2]);
  scatter_rows(reinterpret_cast<std::byte*>(after.data()), reinterpret_cast<const std::byte*>(moved.data()), order, 8);
  EXPECT_EQ(after, before);
}

// A model with the golden config.json of a family and distinct weights.
class LatentModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { make(0); }

  // Writes the model, with `further` prediction blocks.
  void make(int64_t further) {
    std::filesystem::create_directories(folder_);
    Json config = Json::parse(read_text(golden_folder(GetParam()) + "/config.json"));
    if (further > 0) config["num_nextn_predict_layers"] = further;
    write_text(folder_ + "/config.json", config.dump(2) + "\n");
    const auto size = [&](const char* key) { return config[key].get<int64_t>(); };
    const int64_t hidden = size("hidden_size"), heads = size("num_attention_heads"), rope = size("qk_rope_head_dim"),
                  nope = size("qk_nope_head_dim"), value = size("v_head_dim"), rank = size("kv_lora_rank");
    add("model.embed_tokens.weight", {size("vocab_size"), hidden});
    add("lm_head.weight", {size("vocab_size"), hidden});
    add("model.norm.weight", {hidden});
    const int64_t layers = size("num_hidden_layers");
    for (int64_t l = 0; l < layers + further; ++l) {
      const std::string block = base::cat("model.layers.", l, "."), attention = block + "self_attn.";
      if (l >= layers) {
        for (const char* norm : {"enorm", "hnorm", "shared_head.norm"}) add(block + norm + ".weight", {hidden});
        add(block + "eh_proj.weight", {hidden, 2 * hidden});
        tensors_[block + "embed_tokens.weight"] = tensors_.at("model.embed_tokens.weight");
        tensors_[block + "shared_head.head.weight"] = tensors_.at("lm_head.weight");
      }
      add(block + "input_layernorm.weight", {hidden});
      add(block + "post_attention_layernorm.weight", {hidden});
      if (config["q_lora_rank"].is_null()) {
        add(attention + "q_proj.weight", {heads * (nope + rope), hidden});
      } else {
        add(attention + "q_a_proj.weight", {size("q_lora_rank"), hidden});
        add(attention + "q_a_layernorm.weight", {size("q_lora_rank")});
        add(attention + "q_b_proj.weight", {heads * (nope + rope), size("q_lora_rank")});
      }
      add(attention + "kv_a_proj_with_mqa.weight", {rank + rope, hidden});
      add(attention + "kv_a_layernorm.weight", {rank});
      add(attention + "kv_b_proj.weight", {heads * (nope + value), rank});
      add(attention + "o_proj.weight", {hidden, heads * value});
      const bool dense = l < size("first_k_dense_replace");
      const int64_t width = size("moe_intermediate_size"), shared = width * size("n_shared_experts");
      if (dense) add_mlp(block + "mlp.", size("intermediate_size"), hidden);
      if (dense) continue;
      add(block + "mlp.gate.weight", {size("n_routed_experts"), hidden});
      if (config["model_type"] != "deepseek_v2")
        add(block + "mlp.gate.e_score_correction_bias", {size("n_routed_experts")});
      add_mlp(block + "mlp.shared_experts.", shared, hidden);
      for (int64_t e = 0; e < size("n_routed_experts"); ++e)
        add_mlp(block + "mlp.experts." + std::to_string(e) + ".", width, hidden);
    }
    write_tensors(folder_ + "/model.safetensors", tensors_);
  }

  void add_mlp(const std::string& prefix, int64_t width, int64_t hidden) {
    add(prefix + "gate_proj.weight", {width, hidden});
    add(prefix + "up_proj.weight", {width, hidden});
    add(prefix + "down_proj.weight", {hidden, width});
  }
  void add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t n : shape) elements *= n;
    RawTensor tensor{"F32", shape, std::string(4 * elements, '\0')};
    for (int64_t i = 0; i < elements; ++i) {
      const auto number = static_cast<float>(++last_);
      std::memcpy(tensor.bytes.data() + 4 * i, &number, sizeof number);
    }
    tensors_[name] = std::move(tensor);
  }

  Scratch scratch_;
  const std::string folder_ = scratch_ / "model", imported_ = scratch_ / "imported";
  RawTensors tensors_;
  int64_t last_ = 0;
};

TEST_P(LatentModel, ExportHasTheBytesOfTheImport) {
  import_model(folder_, imported_);
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  export_model(checkpoint, scratch_ / "exported");
  const RawTensors after = tensors_of(scratch_ / "exported");
  ASSERT_EQ(after.size(), tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).bytes, tensor.bytes) << name;
  }
  EXPECT_EQ(read_text(scratch_ / "exported/config.json"), read_text(folder_ + "/config.json"));
}

TEST_P(LatentModel, SharedRotaryPartIsItsOwnParameter) {
  import_model(folder_, imported_);
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  device::DeviceContext memory;
  const auto values = values_of(checkpoint.read("layers.0.attention.k_rope.weight", io::Kind::main, memory));
  const RawTensor& theirs = tensors_.at("model.layers.0.self_attn.kv_a_proj_with_mqa.weight");
  const int64_t hidden = theirs.shape[1], first = theirs.shape[0] - 4;
  ASSERT_EQ(values.size(), static_cast<size_t>(4 * hidden));
  const Order order{0, 2, 1, 3};
  for (int64_t row = 0; row < 4; ++row) {
    float expected = 0;
    std::memcpy(&expected, theirs.bytes.data() + 4 * (first + order[row]) * hidden, sizeof expected);
    EXPECT_EQ(values[row * hidden], expected) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LatentModel,
                         testing::Values("deepseek_v2_released", "deepseek_v3_released", "kimi_k2"));

class PredictingModel : public LatentModel {
 protected:
  void SetUp() override { make(2); }
  std::vector<double> imported_values(const std::string& name) {
    io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
    device::DeviceContext memory;
    return values_of(checkpoint.read(name, io::Kind::main, memory));
  }
};

TEST_P(PredictingModel, ExportHasTheBytesOfTheImport) {
  import_model(folder_, imported_);
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  export_model(checkpoint, scratch_ / "exported");
  const RawTensors after = tensors_of(scratch_ / "exported");
  ASSERT_EQ(after.size(), tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).bytes, tensor.bytes) << name;
  }
  EXPECT_EQ(read_text(scratch_ / "exported/config.json"), read_text(folder_ + "/config.json"));
}

TEST_P(PredictingModel, ParametersHaveTheNamesOfPredictionBlocks) {
  import_model(folder_, imported_);
  const auto first_of = [&](const std::string& name) {
    float value = 0;
    std::memcpy(&value, tensors_.at(name).bytes.data(), sizeof value);
    return static_cast<double>(value);
  };
  const std::pair<const char*, const char*> names[] = {
      {"prediction.0.token_norm.weight", "model.layers.2.enorm.weight"},
      {"prediction.0.hidden_norm.weight", "model.layers.2.hnorm.weight"},
      {"prediction.1.projection.weight", "model.layers.3.eh_proj.weight"},
      {"prediction.1.norm.weight", "model.layers.3.shared_head.norm.weight"},
      {"prediction.1.attention_norm.weight", "model.layers.3.input_layernorm.weight"},
      {"prediction.0.moe.router.weight", "model.layers.2.mlp.gate.weight"},
      {"layers.1.attention_norm.weight", "model.layers.1.input_layernorm.weight"}};
  for (const auto& [ours, theirs] : names) EXPECT_EQ(imported_values(ours).front(), first_of(theirs)) << ours;
  EXPECT_NE(read_text(imported_ + "/recipe.yaml").find("prediction_blocks: 2"), std::string::npos);
}

TEST_P(PredictingModel, CopiesMayBeMissingButNotDiffer) {
  tensors_.erase("model.layers.2.embed_tokens.weight");
  write_tensors(folder_ + "/model.safetensors", tensors_);
  import_model(folder_, imported_);
  char& byte = tensors_.at("model.layers.3.shared_head.head.weight").bytes.front();
  byte = static_cast<char>(byte ^ 1);
  write_tensors(folder_ + "/model.safetensors", tensors_);
  const std::string message = message_of(base::ExitCode::data, [&] { import_model(folder_, scratch_ / "differing"); });
  EXPECT_NE(message.find("'model.layers.3.shared_head.head.weight' differs from 'lm_head.weight'"), std::string::npos)
      << message;
}

TEST_P(PredictingModel, BlocksThatAreNotStoredAreLeftOut) {
  std::erase_if(tensors_, [](const auto& tensor) {
    return tensor.first.starts_with("model.layers.2.") || tensor.first.starts_with("model.layers.3.");
  });
  write_tensors(folder_ + "/model.safetensors", tensors_);
  const ImportReport report = import_model(folder_, imported_);
  const auto is_note = [](const std::string& note) {
    return note.starts_with("num_nextn_predict_layers (2) is not imported");
  };
  EXPECT_EQ(std::ranges::count_if(report.notes, is_note), 1);
  EXPECT_EQ(read_text(imported_ + "/recipe.yaml").find("prediction_blocks"), std::string::npos);
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  export_model(checkpoint, scratch_ / "exported");
  EXPECT_EQ(Json::parse(read_text(scratch_ / "exported/config.json"))["num_nextn_predict_layers"], 0);
}

INSTANTIATE_TEST_SUITE_P(Families, PredictingModel, testing::Values("deepseek_v3_released", "kimi_k2"));

}  // namespace
}  // namespace hexad::tests
