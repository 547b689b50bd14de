// Starts of runs whose train.init_from is a Hugging Face model. One test uses a checkpoint, and one an empty folder.
#include "tools/train/checkpoint/imported_start.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "parallel/comm/self_group.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
namespace {

namespace fs = std::filesystem;

/// Returns a recipe with the model of the golden mixtral. A run of this recipe starts from `model`.
Recipe recipe_from(const ForeignFolder& model, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"model.context=32",
                               "model.vocab=48",
                               "model.mlp_hidden=64",
                               "model.rotary_theta=1000000",
                               "model.moe.expert_hidden=8",
                               cat("train.init_from=", model.path()),
                               cat("run.dir=", model.beside("run"))};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

TEST(ImportedStart, IsImportedOnce) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  fs::file_time_type first;
  for (int time = 0; time < 2; ++time) {
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      EXPECT_EQ(start_folder(recipe, world, {}), model.beside("run") + "/imported");
    });
    const auto written = fs::last_write_time(model.beside("run") + "/imported/manifest.json");
    if (time == 0) first = written;
    EXPECT_EQ(written, first);
  }
}

TEST(ImportedStart, RemainsOfAKilledImportAreRemoved) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  const std::string run = model.beside("run"), remains = cat(run, "/imported.", ::getpid(), ".tmp");
  for (const std::string& folder : {remains, run + "/imported.1.tmp", run + "/other.1.tmp"}) {
    fs::create_directories(folder);
    write_text(folder + "/shard", "half");
  }
  on_ranks(1, [&](const comm::ProcessGroup& world) { start_folder(recipe, world, {}); });
  EXPECT_FALSE(fs::exists(remains) || fs::exists(run + "/imported.1.tmp"));
  EXPECT_TRUE(fs::exists(run + "/other.1.tmp/shard"));
  EXPECT_TRUE(fs::exists(run + "/imported/manifest.json"));
}

TEST(ImportedStart, LoadsTheWeightsOfTheFolder) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  EXPECT_EQ(cautions_of_start(recipe), std::vector<std::string>());
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    verify::TrainingRun run(recipe, world);
    run.init_from(start_folder(recipe, world, {}));
    const std::vector<double> norm = values_of(run.weights().at("norm.weight"));
    const RawTensor stored = tensors_of(model.path()).at("model.norm.weight");
    ASSERT_EQ(norm.size() * 4, stored.bytes.size());
    for (size_t i = 0; i < norm.size(); ++i) {
      float value = 0;
      std::memcpy(&value, stored.bytes.data() + 4 * i, sizeof value);
      EXPECT_EQ(norm[i], static_cast<double>(value)) << "element " << i;
    }
  });
}

TEST(ImportedStart, EveryRankThrowsTheErrorOfTheFirstRank) {
  const ForeignFolder model("mixtral");
  model.change_tensors([](RawTensors& tensors) { tensors.erase("model.norm.weight"); });
  const Recipe recipe = recipe_from(model);
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const std::string message = message_of(ExitCode::data, [&] { start_folder(recipe, world, {}); });
    EXPECT_NE(message.find("missing tensor 'model.norm.weight'"), message.npos) << message;
  });
  EXPECT_FALSE(fs::exists(model.beside("run") + "/imported"));
}

TEST(ImportedStart, EveryRankThrowsThatTheFirstRankLacksMemory) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const base::FileWork work;
    bool thrown = false;
    const auto throw_once = [&thrown](uint64_t) {
      if (!std::exchange(thrown, true)) throw std::bad_alloc();
    };
    if (world.rank() == 0) work.on_move(throw_once);
    EXPECT_EQ(message_of(ExitCode::resource, [&] { start_folder(recipe, world, work); }),
              "train.init_from: out of memory");
  });
}

TEST(ImportedStart, ImportOfAnotherFolderIsRefused) {
  const ForeignFolder model("mixtral"), other("mixtral");
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    start_folder(recipe_from(model), world, {});
    const Recipe changed = recipe_from(model, {cat("train.init_from=", other.path())});
    const std::string message = message_of(ExitCode::data, [&] { start_folder(changed, world, {}); });
    EXPECT_NE(message.find(cat("but train.init_from is ", other.path())), message.npos) << message;
  });
}

TEST(ImportedStart, EveryRankThrowsTheExitCodeOfTheFirstRank) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  fs::create_directories(model.beside("run") + "/imported");
  write_text(model.beside("run") + "/imported/mine", "text");
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const std::string message = message_of(ExitCode::usage, [&] { start_folder(recipe, world, {}); });
    EXPECT_NE(message.find("train.init_from: " + model.beside("run") + "/imported: is not empty"), message.npos)
        << message;
  });
}

// cp -p and rsync -a keep the times of files, so a new file may be older than the import.
TEST(ImportedStart, ModelThatChangedSinceItsImportIsRefused) {
  for (const auto later : {std::chrono::seconds(10), std::chrono::seconds(-1000)}) {
    const ForeignFolder model("mixtral");
    const Recipe recipe = recipe_from(model);
    on_ranks(1, [&](const comm::ProcessGroup& world) {
      require_same_import(recipe);  // passes, because there is no import yet
      start_folder(recipe, world, {});
      require_same_import(recipe);
      const auto imported = fs::last_write_time(model.beside("run") + "/imported/manifest.json");
      fs::last_write_time(model.path() + "/model.safetensors", imported + later);
      const std::string message = message_of(ExitCode::data, [&] { start_folder(recipe, world, {}); });
      EXPECT_NE(message.find(model.path() + ", whose file model.safetensors has been changed since"), message.npos)
          << message;
      EXPECT_EQ(message_of(ExitCode::data, [&] { require_same_import(recipe); }), message);
    });
  }
}

TEST(ImportedStart, NewerModelThanAnImportWithoutStampsIsRefused) {
  const ForeignFolder model("mixtral");
  const Recipe recipe = recipe_from(model);
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    start_folder(recipe, world, {});
    const std::string imported = model.beside("run") + "/imported", path = imported + "/hugging_face/origin.json";
    Json origin = Json::parse(read_text(path));
    EXPECT_EQ(origin["files"].size(), 2u) << "the files are config.json and model.safetensors";
    origin.erase("files");
    write_text(path, origin.dump());
    start_folder(recipe, world, {});
    fs::last_write_time(model.path() + "/model.safetensors",
                        fs::last_write_time(imported + "/manifest.json") + std::chrono::seconds(10));
    const std::string message = message_of(ExitCode::data, [&] { start_folder(recipe, world, {}); });
    EXPECT_NE(message.find("is older than a file of " + model.path()), message.npos) << message;
  });
}

TEST(ImportedStart, FolderWithoutAModelIsNotImported) {
  const Scratch scratch;
  const Recipe recipe = small_recipe({cat("train.init_from=", scratch.path()), cat("run.dir=", scratch / "run")});
  on_ranks(1, [&](const comm::ProcessGroup& world) { EXPECT_EQ(start_folder(recipe, world, {}), scratch.path()); });
}

TEST(ImportedStart, IntendedDifferencesGiveNoWarnings) {
  const auto mention = [](const std::vector<std::string>& cautions, const std::string& change) {
    return std::ranges::any_of(cautions, [&](const std::string& c) { return c.find(change) != c.npos; });
  };
  const ForeignFolder dense("llama"), experts("mixtral");
  const std::vector<std::string> wanted{"train.init_experts=copy", "train.init_vocabulary=grow"};
  for (const bool asked : {false, true}) {
    const auto cautions = [&](const ForeignFolder& model, std::vector<std::string> keys) {
      if (asked) keys.insert(keys.end(), wanted.begin(), wanted.end());
      return cautions_of_start(recipe_from(model, keys));
    };
    const auto upcycled = cautions(dense, {"model.vocab=60", "model.moe.expert_hidden=24"}),
               grown = cautions(experts, {"model.moe.experts=8", "model.moe.top_k=4", "model.moe.normalize=false"});
    EXPECT_EQ(mention(upcycled, "blocks, dense or with experts: "), !asked);
    EXPECT_EQ(mention(upcycled, "model.vocab: 48 -> 60"), !asked);
    EXPECT_EQ(mention(grown, "model.moe.experts: 4 -> 8"), !asked);
    EXPECT_EQ(mention(grown, "model.moe.top_k: 2 -> 4"), !asked);
    EXPECT_TRUE(mention(grown, "model.moe.normalize: true -> false"));
  }
}

TEST(ImportedStart, ChangedModelOfACheckpointGivesWarnings) {
  const Scratch scratch;
  const std::string start = "train.init_from=" + scratch.path() + "/checkpoints/step-00000001";
  const comm::SelfGroup self;
  const Recipe before = small_recipe({"run.dir=" + scratch.path()});
  verify::TrainingRun run(before, self);
  run.step(verify::documents_of(before));
  run.save();
  EXPECT_EQ(cautions_of_start(small_recipe({start, "model.context=16"})), std::vector<std::string>());
  EXPECT_EQ(cautions_of_start(small_recipe({start, "model.prediction_blocks=1"})), std::vector<std::string>());
  // The weights keep their shapes if model.heads and model.kv_heads are both doubled.
  const std::vector<std::string> cautions =
      cautions_of_start(small_recipe({start, "model.heads=8", "model.kv_heads=4"}));
  ASSERT_EQ(cautions.size(), 3u);
  EXPECT_NE(cautions[0].find("manifest.json: recipe: model.head_size: 4 -> 2"), std::string::npos) << cautions[0];
  EXPECT_NE(cautions[1].find("model.heads: 4 -> 8"), std::string::npos) << cautions[1];
  EXPECT_NE(cautions[2].find("model.kv_heads: 2 -> 4"), std::string::npos) << cautions[2];
}

TEST(ImportedStart, ChangedModelGivesWarnings) {
  const ForeignFolder model("mixtral");
  const std::vector<std::string> cautions =
      cautions_of_start(recipe_from(model, {"model.moe.normalize=false", "model.norm_eps=0.001"}));
  ASSERT_EQ(cautions.size(), 2u);
  EXPECT_NE(cautions[0].find("model.moe.normalize: true -> false"), std::string::npos) << cautions[0];
  EXPECT_NE(cautions[1].find("model.norm_eps: 1e-05 -> 0.001"), std::string::npos) << cautions[1];
}

}  // namespace
}  // namespace hexad::tests
