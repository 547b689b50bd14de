// Folders of Qwen3-Next models with distinct weights: delta nets and gated attention.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "layers/model_size.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/config_json.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"
#include "tools/interop/latent_rows.h"

namespace hexad::tests {

using namespace interop;
namespace {

using Order = std::vector<int64_t>;

TEST(PartsOfGroups, FirstPartOfAllGroupsPrecedesTheSecond) {
  EXPECT_EQ(parts_of_groups(2, std::array<int64_t, 2>{2, 1}), (Order{0, 1, 3, 4, 2, 5}));
  EXPECT_EQ(parts_of_groups(2, std::array<int64_t, 3>{1, 1, 2}), (Order{0, 4, 1, 5, 2, 3, 6, 7}));
}

// A model with the golden config.json and distinct weights.
class Qwen3Next : public testing::Test {
 protected:
  static constexpr int64_t hidden = 16, heads = 4, size = 8, keys = 2, values = 4, key_size = 4, value_size = 6;

  void SetUp() override {
    std::filesystem::create_directories(folder_);
    config_ = Json::parse(read_text(golden_folder("qwen3_next") + "/config.json"));
    add("model.embed_tokens.weight", {48, hidden});
    add("lm_head.weight", {48, hidden});
    add("model.norm.weight", {hidden});
    for (int64_t l = 0; l < 4; ++l) {
      const std::string block = base::cat("model.layers.", l, ".");
      add(block + "input_layernorm.weight", {hidden});
      add(block + "post_attention_layernorm.weight", {hidden});
      l % 2 == 0 ? add_delta_net(block + "linear_attn.") : add_attention(block + "self_attn.");
      if (l == 0) {
        add_mlp(block + "mlp.", 24);
        continue;
      }
      add(block + "mlp.gate.weight", {4, hidden});
      add(block + "mlp.shared_expert_gate.weight", {1, hidden});
      add_mlp(block + "mlp.shared_expert.", 12);
      for (int64_t e = 0; e < 4; ++e) add_mlp(base::cat(block, "mlp.experts.", e, "."), 8);
    }
    write();
  }

  void add_delta_net(const std::string& at) {
    const int64_t key_width = keys * key_size, value_width = values * value_size;
    add(at + "in_proj_qkvz.weight", {2 * key_width + 2 * value_width, hidden});
    add(at + "in_proj_ba.weight", {2 * values, hidden});
    add(at + "conv1d.weight", {2 * key_width + value_width, 1, 3});
    add(at + "A_log", {values});
    add(at + "dt_bias", {values});
    add(at + "norm.weight", {value_size});
    add(at + "out_proj.weight", {hidden, value_width});
  }
  void add_attention(const std::string& at) {
    add(at + "q_proj.weight", {2 * heads * size, hidden});
    add(at + "k_proj.weight", {2 * size, hidden});
    add(at + "v_proj.weight", {2 * size, hidden});
    add(at + "o_proj.weight", {hidden, heads * size});
    add(at + "q_norm.weight", {size});
    add(at + "k_norm.weight", {size});
  }
  void add_mlp(const std::string& at, int64_t width) {
    add(at + "gate_proj.weight", {width, hidden});
    add(at + "up_proj.weight", {width, hidden});
    add(at + "down_proj.weight", {hidden, width});
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
  void write() const {
    write_text(folder_ + "/config.json", config_.dump(2) + "\n");
    write_tensors(folder_ + "/model.safetensors", tensors_);
  }

  // Returns the first element of each row of a parameter with `hidden` columns.
  std::vector<double> rows_of(const std::string& name) const {
    io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
    device::DeviceContext memory;
    const auto all = values_of(checkpoint.read(name, io::Kind::main, memory));
    std::vector<double> first;
    for (size_t i = 0; i < all.size(); i += hidden) first.push_back(all[i]);
    return first;
  }
  // Returns the first elements of the given rows of a foreign tensor with `hidden` columns.
  std::vector<double> their_rows(const std::string& name, const Order& rows) const {
    std::vector<double> first;
    for (const int64_t row : rows) {
      float number = 0;
      std::memcpy(&number, tensors_.at(name).bytes.data() + 4 * row * hidden, sizeof number);
      first.push_back(static_cast<double>(number));
    }
    return first;
  }

  Scratch scratch_;
  const std::string folder_ = scratch_ / "model", imported_ = scratch_ / "imported";
  Json config_;
  RawTensors tensors_;
  int64_t last_ = 0;
};

TEST_F(Qwen3Next, ExportHasTheBytesOfTheImport) {
  import_model(folder_, imported_);
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  export_model(checkpoint, scratch_ / "exported");
  const RawTensors after = tensors_of(scratch_ / "exported");
  ASSERT_EQ(after.size(), tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(after.at(name).bytes, tensor.bytes) << name;
  }
  EXPECT_EQ(read_text(scratch_ / "exported/config.json"), read_text(folder_ + "/config.json"));
}

TEST_F(Qwen3Next, InputsOfADeltaNetAreSeparated) {
  import_model(folder_, imported_);
  const std::string inputs = "model.layers.2.linear_attn.in_proj_qkvz.weight", ours = "layers.2.delta_net.";
  // A group has 4 queries, 4 keys, 2 x 6 values and 2 x 6 gates.
  EXPECT_EQ(rows_of(ours + "q.weight"), their_rows(inputs, {0, 1, 2, 3, 32, 33, 34, 35}));
  EXPECT_EQ(rows_of(ours + "k.weight"), their_rows(inputs, {4, 5, 6, 7, 36, 37, 38, 39}));
  Order of_values, of_gates;
  for (const int64_t group : {0, 32})
    for (int64_t i = 0; i < 12; ++i) of_values.push_back(group + 8 + i), of_gates.push_back(group + 20 + i);
  EXPECT_EQ(rows_of(ours + "v.weight"), their_rows(inputs, of_values));
  EXPECT_EQ(rows_of(ours + "gate.weight"), their_rows(inputs, of_gates));
  const std::string gates = "model.layers.2.linear_attn.in_proj_ba.weight";
  EXPECT_EQ(rows_of(ours + "write.weight"), their_rows(gates, {0, 1, 4, 5}));
  EXPECT_EQ(rows_of(ours + "decay.weight"), their_rows(gates, {2, 3, 6, 7}));
}

TEST_F(Qwen3Next, QueriesAndGatesOfAttentionAreSeparated) {
  import_model(folder_, imported_);
  Order queries, gates;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < size; ++i) queries.push_back(2 * h * size + i), gates.push_back((2 * h + 1) * size + i);
  const std::string theirs = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_EQ(rows_of("layers.1.attention.q.weight"), their_rows(theirs, queries));
  EXPECT_EQ(rows_of("layers.1.attention.gate.weight"), their_rows(theirs, gates));
}

TEST_F(Qwen3Next, ImportHasTheParametersOfItsRecipe) {
  import_model(folder_, imported_);
  const Recipe recipe = recipe_of(read_text(imported_ + "/recipe.yaml"),
                                  {"data.synthetic=true", "train.steps=10", "optim.schedule=constant"});
  EXPECT_TRUE(recipe.model.is_delta(0) && !recipe.model.is_delta(1));
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  device::DeviceContext memory;
  for (const layers::NamedSize& p : layers::parameter_sizes(recipe.model, layers::Registry()))
    EXPECT_EQ(checkpoint.read(p.name, io::Kind::main, memory).shape(), p.spec.global_shape) << p.name;
}

TEST_F(Qwen3Next, LayerTypesFollowFromTheInterval) {
  config_.erase("layer_types");
  const auto every = [&] {
    return read_config(config_.dump(), "config.json").keys.integer("model.full_attention_every");
  };
  EXPECT_EQ(every(), 4);
  config_["full_attention_interval"] = 2;
  EXPECT_EQ(every(), 2);
  const auto refusal = [&] { return message_of(ExitCode::data, [&] { read_config(config_.dump(), "config.json"); }); };
  config_["full_attention_interval"] = 1;
  EXPECT_NE(refusal().find("no block has linear_attention"), std::string::npos) << refusal();
  config_["layer_types"] = {"full_attention", "linear_attention", "linear_attention", "linear_attention"};
  EXPECT_NE(refusal().find("that are not every n-th block"), std::string::npos) << refusal();
  config_["layer_types"] = {"linear_attention", "linear_attention", "linear_attention", "sliding_attention"};
  EXPECT_NE(refusal().find("expected full_attention or linear_attention"), std::string::npos) << refusal();
}

TEST_F(Qwen3Next, KeyHeadsMustDivideValueHeads) {
  config_["linear_num_key_heads"] = 3;
  const std::string refusal = message_of(ExitCode::data, [&] { read_config(config_.dump(), "config.json"); });
  EXPECT_NE(refusal.find("linear_num_key_heads is 3, expected a divisor of linear_num_value_heads, 4"),
            std::string::npos)
      << refusal;
}

TEST_F(Qwen3Next, TensorsThatPredictFurtherTokensAreNamedAndNotRead) {
  add("mtp.fc.weight", {hidden, 2 * hidden});
  write();
  const ImportReport report = import_model(folder_, imported_);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_TRUE(report.notes.back().starts_with("tensor 'mtp.fc.weight' was not read")) << report.notes.back();
  io::Checkpoint checkpoint = io::Checkpoint::open(imported_, io::Check::full);
  export_model(checkpoint, scratch_ / "exported");
  EXPECT_FALSE(tensors_of(scratch_ / "exported").contains("mtp.fc.weight"));
}

}  // namespace
}  // namespace hexad::tests
