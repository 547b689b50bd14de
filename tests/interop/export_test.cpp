#include "tools/interop/export_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "framework/io/checkpoint_writer.h"
#include "parallel/comm/self_group.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/elements.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
using namespace tensor;
namespace {

namespace fs = std::filesystem;

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), text.npos) << text << "\ndoes not contain: " << part;
}

/// An imported golden model.
struct Imported {
  explicit Imported(const std::string& family) : model(family) { import_model(model.path(), path()); }
  std::string path() const { return model.beside("imported"); }
  std::string target() const { return model.beside("exported"); }
  ExportReport write(const ExportOptions& options = {}) const {
    io::Checkpoint checkpoint = io::Checkpoint::open(path(), io::Check::full);
    return export_model(checkpoint, target(), options);
  }

  ForeignFolder model;
};

void expect_same(const RawTensors& expected, const RawTensors& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(actual.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(actual.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(actual.at(name).bytes, tensor.bytes) << name;
  }
}

TEST(Export, ShardsHaveAnIndexAndTheSameTensors) {
  const Imported imported("mixtral");
  const ExportReport report = imported.write({.shard_bytes = 8000});
  EXPECT_GT(report.shards, 2);
  expect_same(tensors_of(imported.model.path()), tensors_of(imported.target()));
  const Json index = Json::parse(read_text(imported.target() + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], report.bytes);
  EXPECT_EQ(index["weight_map"].size(), static_cast<size_t>(report.tensors));
  for (const auto& [name, file] : index["weight_map"].items())
    EXPECT_TRUE(read_tensors(imported.target() + "/" + file.get<std::string>()).contains(name)) << name;
  // The import accepts the written index.
  import_model(imported.target(), imported.model.beside("again"));
}

TEST(Export, TransposedTensorsAreExportedBitForBit) {
  const Imported imported("gpt2");
  imported.write();
  expect_same(tensors_of(imported.model.path()), tensors_of(imported.target()));
}

TEST(Export, Bf16AndF16AreExportedBitForBit) {
  for (const Element type : {Element::bf16, Element::f16}) {
    const ForeignFolder model("mixtral");
    model.change_tensors([&](RawTensors& tensors) {
      for (auto& [name, tensor] : tensors) {
        if (name.ends_with("gate.weight")) continue;  // routers are often stored in f32
        const int64_t count = static_cast<int64_t>(tensor.bytes.size()) / 4;
        std::string bytes(tensor.bytes.size() / 2, '\0');
        convert(reinterpret_cast<std::byte*>(bytes.data()), type,
                reinterpret_cast<const std::byte*>(tensor.bytes.data()), Element::f32, count);
        tensor.bytes = bytes, tensor.dtype = stored(type).name;
      }
    });
    import_model(model.path(), model.beside("imported"));
    io::Checkpoint checkpoint = io::Checkpoint::open(model.beside("imported"), io::Check::full);
    export_model(checkpoint, model.beside("exported"));
    expect_same(tensors_of(model.path()), tensors_of(model.beside("exported")));
  }
}

TEST(Export, UnknownNeutralKeysAndTokenizerFilesAreKept) {
  const ForeignFolder model("mixtral");
  model.change_config([](Json& config) { config["task_specific_params"] = {{"mine", 1}}; });
  write_text(model.path() + "/tokenizer.json", "{\"version\": \"1.0\"}");
  import_model(model.path(), model.beside("imported"));
  io::Checkpoint checkpoint = io::Checkpoint::open(model.beside("imported"), io::Check::full);
  const ExportReport report = export_model(checkpoint, model.beside("exported"));
  EXPECT_EQ(report.files, (std::vector<std::string>{"generation_config.json", "tokenizer.json"}));
  for (const char* name : {"/config.json", "/tokenizer.json", "/generation_config.json"})
    EXPECT_EQ(read_text(model.beside("exported") + name), read_text(model.path() + name)) << name;
  EXPECT_FALSE(fs::exists(model.beside("exported") + "/origin.json"));
}

TEST(Export, AnotherTypeIsWrittenAndNamed) {
  const Imported imported("mixtral");
  imported.write({.dtype = "bf16"});
  const RawTensors before = tensors_of(imported.model.path()), after = tensors_of(imported.target());
  for (const auto& [name, tensor] : after) {
    EXPECT_EQ(tensor.dtype, "BF16");
    std::string expected(tensor.bytes.size(), '\0');
    convert(reinterpret_cast<std::byte*>(expected.data()), Element::bf16,
            reinterpret_cast<const std::byte*>(before.at(name).bytes.data()), Element::f32,
            static_cast<int64_t>(expected.size()) / 2);
    EXPECT_EQ(tensor.bytes, expected) << name;
  }
  EXPECT_EQ(Json::parse(read_text(imported.target() + "/config.json"))["dtype"], "bfloat16");
}

/// A run that started from an imported model and saved after one step.
struct TrainedRun {
  TrainedRun(const Imported& imported, const std::vector<std::string>& overrides = {},
             const std::string& folder = "run")
      : dir(imported.model.beside(folder)) {
    std::vector<std::string> all{"batch.global=2",      "batch.micro=2",     "data.synthetic=true",
                                 "train.precision=f32", "train.steps=10",    "optim.schedule=constant",
                                 "train.threads=1",     cat("run.dir=", dir)};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const train::Recipe recipe = recipe_of(read_text(imported.path() + "/recipe.yaml"), all);
    verify::TrainingRun run(recipe, alone);
    run.init_from(imported.path());
    run.step(verify::documents_of(recipe));
    run.save();
    weights = run.weights();
    for (auto& [name, tensor] : weights) values[name] = values_of(tensor);
  }
  io::Checkpoint checkpoint() const { return io::CheckpointStore(dir + "/checkpoints").open(1, io::Check::full); }

  comm::SelfGroup alone;
  std::string dir;
  verify::TensorMap weights;
  std::map<std::string, std::vector<double>> values;
};

TEST(Export, TrainedRunFindsItsOriginAndWritesItsWeights) {
  const Imported imported("mixtral");
  const TrainedRun run(imported);
  io::Checkpoint checkpoint = run.checkpoint();
  const ExportReport report = export_model(checkpoint, imported.target());
  EXPECT_EQ(report.origin, imported.path() + "/hugging_face");
  EXPECT_EQ(read_text(imported.target() + "/config.json"), read_text(imported.model.path() + "/config.json"));
  const RawTensors after = tensors_of(imported.target());
  const std::vector<double>& norm = run.values.at("norm.weight");
  std::vector<float> exported(norm.size());
  std::memcpy(exported.data(), after.at("model.norm.weight").bytes.data(), 4 * exported.size());
  for (size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(static_cast<double>(exported[i]), norm[i]) << i;
  EXPECT_NE(after.at("model.norm.weight").bytes, tensors_of(imported.model.path()).at("model.norm.weight").bytes);
}

TEST(Export, ImportInTheRunDirectoryIsTheOriginOnlyIfTheRunStartedFromIt) {
  const Imported imported("mixtral");
  const TrainedRun direct(imported, {cat("train.init_from=", imported.model.path())});
  import_model(imported.model.path(), direct.dir + "/imported");
  io::Checkpoint checkpoint = direct.checkpoint();
  EXPECT_EQ(export_model(checkpoint, imported.target()).origin, direct.dir + "/imported/hugging_face");

  const Imported second("mixtral");
  const TrainedRun other(second);
  import_model(imported.model.path(), other.dir + "/imported");
  io::Checkpoint of_second = other.checkpoint();
  EXPECT_EQ(export_model(of_second, second.target()).origin, second.path() + "/hugging_face");
}

TEST(Export, OriginIsFoundOverSeveralRunsWithoutTheSourceFolder) {
  const Imported imported("mixtral");
  const TrainedRun first(imported, {cat("train.init_from=", imported.model.path())}, "first");
  import_model(imported.model.path(), first.dir + "/imported");
  for (const char* slash : {"", "/"}) {
    const TrainedRun second(imported, {cat("train.init_from=", first.checkpoint().folder(), slash)},
                            cat("second", *slash == 0 ? "" : "_again"));
    io::Checkpoint checkpoint = second.checkpoint();
    const std::string target = imported.target() + (*slash == 0 ? "" : "_again");
    EXPECT_EQ(export_model(checkpoint, target).origin, first.dir + "/imported/hugging_face");
    fs::remove_all(imported.model.path());
  }
}

TEST(Export, OriginIsFoundFromOtherPathsOfTheCheckpoint) {
  const Imported imported("mixtral");
  const TrainedRun run(imported, {cat("train.init_from=", imported.model.path())});
  import_model(imported.model.path(), run.dir + "/imported");
  fs::remove_all(imported.model.path());
  io::Checkpoint checkpoint = io::Checkpoint::open(run.checkpoint().folder() + "/.", io::Check::full);
  EXPECT_EQ(fs::path(export_model(checkpoint, imported.target()).origin),
            fs::path(run.dir + "/imported/hugging_face").lexically_normal());
}

TEST(Export, ChangedContextIsWritten) {
  const Imported imported("mixtral");
  const TrainedRun run(imported, {"model.context=16"});
  io::Checkpoint checkpoint = run.checkpoint();
  export_model(checkpoint, imported.target());
  EXPECT_EQ(Json::parse(read_text(imported.target() + "/config.json"))["max_position_embeddings"], 16);
}

TEST(Export, FamilyGivesANewConfig) {
  const Imported imported("mixtral");
  fs::remove_all(imported.path() + "/hugging_face");
  const ExportReport report = imported.write({.family = "mixtral"});
  EXPECT_EQ(report.origin, "");
  expect_same(tensors_of(imported.model.path()), tensors_of(imported.target()));
  const Json config = Json::parse(read_text(imported.target() + "/config.json"));
  EXPECT_EQ(config["architectures"], Json::array({"MixtralForCausalLM"}));
  EXPECT_EQ(config["num_local_experts"], 4);
  import_model(imported.target(), imported.model.beside("again"));
}

TEST(Export, UpcycledModelOfAnotherFamilyKeepsTheTokenizer) {
  const Imported imported("llama");
  const std::string origin = imported.path() + "/hugging_face";
  write_text(origin + "/tokenizer.json", "{}");
  Json facts = Json::parse(read_text(origin + "/origin.json"));
  facts["dtype"] = "BF16";
  write_text(origin + "/origin.json", facts.dump());
  const TrainedRun run(imported, {"model.moe.experts=4", "model.moe.expert_hidden=24", "train.init_experts=copy"});
  io::Checkpoint checkpoint = run.checkpoint();
  const std::string message = message_of(ExitCode::data, [&] { export_model(checkpoint, imported.target()); });
  expect_contains(message, "a config.json of llama cannot express the model: ");
  expect_contains(message, "; `hexad export --family X` writes another family: ");
  expect_contains(message, "mixtral");

  const ExportReport report = export_model(checkpoint, imported.target(), {.family = "mixtral"});
  EXPECT_EQ(report.files, (std::vector<std::string>{"generation_config.json", "tokenizer.json"}));
  EXPECT_EQ(report.origin, "");
  ASSERT_EQ(report.notes.size(), 1u);
  expect_contains(
      report.notes[0],
      cat("because ", origin, " has a llama model; tokenizer files, token ids and dtype are from this folder"));
  const Json config = Json::parse(read_text(imported.target() + "/config.json"));
  EXPECT_EQ(config["model_type"], "mixtral");
  EXPECT_EQ(config["num_local_experts"], 4);
  EXPECT_EQ(config["bos_token_id"], 1);
  EXPECT_EQ(config["eos_token_id"], 2);
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(tensors_of(imported.target()).at("model.norm.weight").dtype, "BF16");
  import_model(imported.target(), imported.model.beside("again"));

  const ExportOptions like{.like = imported.model.path(), .family = "mixtral"};
  EXPECT_EQ(export_model(checkpoint, imported.model.beside("like"), like).files,
            std::vector<std::string>{"generation_config.json"});

  const ExportReport in_f16 =
      export_model(checkpoint, imported.model.beside("f16"), {.family = "mixtral", .dtype = "f16"});
  ASSERT_EQ(in_f16.notes.size(), 1u);
  expect_contains(in_f16.notes[0], "; tokenizer files and token ids are from this folder");
}

TEST(Export, TokenizerOfAnotherVocabularyCausesAWarning) {
  const Imported imported("mixtral");
  EXPECT_EQ(imported.write().notes, std::vector<std::string>());
  const TrainedRun run(imported, {"model.vocab=60", "train.init_vocabulary=grow"});
  io::Checkpoint checkpoint = run.checkpoint();
  const ExportReport report = export_model(checkpoint, imported.model.beside("grown"));
  ASSERT_EQ(report.notes.size(), 1u);
  expect_contains(report.notes[0],
                  "warning: model.vocab is 60, but the copied tokenizer files are for a vocabulary of 48");
}

TEST(Export, KeysThatChangeTheExpertsOfATokenCauseAWarning) {
  const Imported imported("mixtral");
  const TrainedRun run(imported, {"model.moe.capacity_factor=0.5", "model.moe.routing=balanced"});
  io::Checkpoint checkpoint = run.checkpoint();
  const ExportReport report = export_model(checkpoint, imported.target());
  ASSERT_EQ(report.notes.size(), 2u);
  expect_contains(
      report.notes[0],
      "warning: model.moe.capacity_factor is 0.5, but the exported model drops no token, so it computes other "
      "results");
  expect_contains(report.notes[1], "warning: model.moe.routing is balanced, but in the exported model, the router");
}

TEST(Export, LikeSelectsTheOrigin) {
  const Imported imported("mixtral");
  fs::remove_all(imported.path() + "/hugging_face");
  EXPECT_EQ(imported.write({.like = imported.model.path()}).origin, imported.model.path());
  expect_same(tensors_of(imported.model.path()), tensors_of(imported.target()));
}

TEST(Export, SelectionBiasRemainsF32IfItsTypeIsUnknown) {
  const Imported imported("glm4_moe");
  imported.model.change_config([](Json& config) { config["dtype"] = "bfloat16"; });
  imported.write({.like = imported.model.path()});
  const RawTensors before = tensors_of(imported.model.path()), after = tensors_of(imported.target());
  int biases = 0;
  for (const auto& [name, tensor] : after) {
    if (!name.ends_with(".e_score_correction_bias")) {
      EXPECT_EQ(tensor.dtype, "BF16") << name;
      continue;
    }
    ++biases;
    EXPECT_EQ(tensor.dtype, "F32") << name;
    EXPECT_EQ(tensor.bytes, before.at(name).bytes) << name;
  }
  EXPECT_GT(biases, 0);
}

TEST(Export, MissingOriginIsRefusedWithTheOptionsThatReplaceIt) {
  const Imported imported("mixtral");
  fs::remove_all(imported.path() + "/hugging_face");
  const std::string message = message_of(ExitCode::usage, [&] { imported.write(); });
  expect_contains(
      message,
      "give the folder of a model with the same config.json (--like), or the family of a new config.json (--family)");
  EXPECT_FALSE(fs::exists(imported.target()));
}

TEST(Export, FamilyThatCannotExpressTheModelIsRefusedByKey) {
  const Imported imported("mixtral");
  fs::remove_all(imported.path() + "/hugging_face");
  const std::string message = message_of(ExitCode::data, [&] { imported.write({.family = "llama"}); });
  expect_contains(message, "a config.json of llama cannot express the model");
  EXPECT_FALSE(fs::exists(imported.target()));
}

TEST(Export, DamagedFactsOfTheOriginAreRefused) {
  const Imported imported("mixtral");
  const std::string path = imported.path() + "/hugging_face/origin.json";
  Json facts = Json::parse(read_text(path));
  facts["dtype"] = "F8";
  write_text(path, facts.dump());
  expect_contains(message_of(ExitCode::data, [&] { imported.write(); }), path + ": dtype is \"F8\"");
  EXPECT_FALSE(fs::exists(imported.target()));
}

TEST(Export, TargetThatIsNotEmptyIsRefused) {
  const Imported imported("mixtral");
  fs::create_directory(imported.target());
  write_text(imported.target() + "/mine", "text");
  expect_contains(message_of(ExitCode::usage, [&] { imported.write(); }), "is not empty");
  EXPECT_EQ(read_text(imported.target() + "/mine"), "text");
}

TEST(Export, DamagedShardIsRefusedAndLeavesNothing) {
  const Imported imported("mixtral");
  for (const fs::directory_entry& entry : fs::directory_iterator(imported.path()))
    if (entry.path().extension() == ".safetensors") {
      std::string bytes = read_text(entry.path());
      bytes[bytes.size() - 4] ^= 1;
      write_text(entry.path(), bytes);
    }
  io::Checkpoint checkpoint = io::Checkpoint::open(imported.path(), io::Check::quick);
  expect_contains(message_of(ExitCode::data, [&] { export_model(checkpoint, imported.target()); }), "is damaged");
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(imported.target()).parent_path()))
    EXPECT_TRUE(entry.path().filename() == "model" || entry.path().filename() == "imported") << entry.path();
}

}  // namespace
}  // namespace hexad::tests
