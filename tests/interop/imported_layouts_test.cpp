// Imported models give the same results under a parallel layout as on one rank, and can be exported again.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/io/checkpoint_store.h"
#include "parallel/comm/self_group.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

/// A golden model. Its config may belong to another golden model with the same weights, or a prediction block may be
/// added.
struct Source {
  std::string name, golden, config = golden;
  bool predicts = false;
};
std::ostream& operator<<(std::ostream& out, const Source& source) { return out << source.name; }

/// Adds a prediction block: a copy of the last block, and further weights copied from other parts of the model.
void add_prediction_block(const ForeignFolder& folder) {
  int64_t layers = 0;
  folder.change_config([&](Json& config) {
    config["num_nextn_predict_layers"] = 1;
    layers = config["num_hidden_layers"];
  });
  folder.change_tensors([&](RawTensors& tensors) {
    const std::string last = cat("model.layers.", layers - 1, "."), further = cat("model.layers.", layers, ".");
    RawTensors added;
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with(last)) added[further + name.substr(last.size())] = tensor;
    const RawTensor &norm = tensors.at("model.norm.weight"), &embedding = tensors.at("model.embed_tokens.weight");
    for (const char* name : {"enorm", "hnorm", "shared_head.norm"}) added[cat(further, name, ".weight")] = norm;
    const int64_t hidden = embedding.shape[1];
    added[further + "eh_proj.weight"] = {
        embedding.dtype, {hidden, 2 * hidden}, embedding.bytes.substr(0, 2 * hidden * hidden * sizeof(float))};
    added[further + "embed_tokens.weight"] = embedding;
    added[further + "shared_head.head.weight"] = tensors.at("lm_head.weight");
    tensors.merge(added);
  });
}

class ImportedLayouts : public testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    const ForeignFolder folder(GetParam().golden);
    write_text(folder.path() + "/config.json", read_text(golden_folder(GetParam().config) + "/config.json"));
    if (GetParam().predicts) add_prediction_block(folder);
    interop::import_model(folder.path(), imported_);
  }

  Recipe recipe(std::vector<std::string> overrides) const {
    const std::vector<std::string> common{"batch.global=4",     "batch.micro=1",        "data.synthetic=true",
                                          "train.steps=10",     "train.threads=1",      "train.precision=f64",
                                          "optim.lr=0.01",      "train.init_from=\"\"", "optim.schedule=constant",
                                          cat("run.dir=", run_)};
    overrides.insert(overrides.begin(), common.begin(), common.end());
    return recipe_of(read_text(imported_ + "/recipe.yaml"), overrides, overrides.size() > common.size() ? 4 : 1);
  }

  Scratch scratch_;
  const std::string imported_ = scratch_ / "imported", run_ = scratch_ / "run";
};

TEST_P(ImportedLayouts, TrainAsOnOneRankAndAreExported) {
  const comm::SelfGroup self;
  const Recipe one = recipe({});
  const FixedSource source = documents_of(one);
  TrainingRun alone(one, self);
  alone.init_from(imported_);
  const Trajectory expected = trajectory(alone, source, 2);
  std::vector<std::string> layout{"parallel.pp=2", "parallel.tp=2"};
  if (one.model.moe.experts > 0) layout.insert(layout.end(), {"parallel.ep=2", "parallel.etp=1"});
  const Recipe four = recipe(layout);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(four, world);
    run.init_from(imported_);
    expect_close(expected, trajectory(run, source, 2), 1e-9);
    run.save();
  });

  io::Checkpoint saved = io::CheckpointStore(run_ + "/checkpoints").open(2, io::Check::full);
  interop::export_model(saved, scratch_ / "exported", {.like = imported_});
  interop::import_model(scratch_ / "exported", scratch_ / "again");
  io::Checkpoint again = io::Checkpoint::open(scratch_ / "again", io::Check::full);
  device::DeviceContext memory;
  for (const auto& [name, weights] : expected.weights) {
    const std::vector<double> before = values_of(weights), after = values_of(again.read(name, io::Kind::main, memory));
    ASSERT_EQ(before.size(), after.size()) << name;
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(after[i], before[i], 1e-6 * std::max(1.0, std::abs(before[i]))) << name << " " << i;  // f32 rounding
  }
}

// Returns the tested models. gpt2 is not among them, because its keys have a bias but no rotary positions. Therefore,
// the gradient of this bias is zero except for rounding, which depends on the layout.
std::vector<Source> sources() {
  std::vector<Source> all;
  for (const char* family : {"qwen3_moe", "qwen2_moe", "qwen3_next", "qwen3_5_moe_text", "olmoe", "ernie4_5_moe",
                             "glm4_moe", "deepseek_v3", "deepseek_v2", "mixtral", "minimax_m2", "gpt_oss",
                             "llama4_text", "arctic", "phimoe", "dbrx", "llama", "qwen3_5_text", "qwen3"})
    all.push_back({family, family});
  all.push_back({"kimi_k2", "deepseek_v3", "kimi_k2"});
  all.push_back({"deepseek_v3_with_prediction", "deepseek_v3", "deepseek_v3_released", true});
  all.push_back({"glm4_moe_with_prediction", "glm4_moe", "glm4_moe", true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(, ImportedLayouts, testing::ValuesIn(sources()), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
