#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include <nlohmann/json.hpp>

#include "framework/data/file.h"
#include "framework/data/prepare.h"
#include "framework/io/checkpoint_store.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Dataset of a few long documents, with runs on this dataset.
class Runs {
 public:
  Runs() {
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 3000; ++i) text << i << ' ';
    text.close();
    data::prepare({.inputs = {folder_ / "text"},
                   .output = folder_ / "data",
                   .tokenizer = "bytes",
                   .split = {.separator = "", .longest_bytes = 2000},
                   .heldout = 0});
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  Recipe recipe(const std::string& run, std::vector<std::string> keys) const {
    keys.insert(keys.end(), {"run.dir=" + folder_ / run, "data.synthetic=false", "data.dataset=" + folder_ / "data",
                             "model.vocab=258", "train.steps=6", "checkpoint.every=3", "checkpoint.keep=0"});
    return small_recipe(keys);
  }
  void train(const std::string& run, const std::vector<std::string>& keys = {}) const {
    const comm::World world;
    ASSERT_EQ(Trainer(recipe(run, keys), Registry(), world).run(), ExitCode::done);
  }
  /// Copies the checkpoint of step 3 of the run `from` to the run `to`, and changes the copy's manifest.
  void copy_checkpoint(const std::string& from, const std::string& to,
                       const std::function<void(io::RunState&)>& change) const {
    const std::string step = "/checkpoints/step-00000003";
    fs::create_directories(folder_ / (to + "/checkpoints"));
    fs::copy(folder_ / (from + step), folder_ / (to + step), fs::copy_options::recursive);
    const std::string path = folder_ / (to + step + "/manifest.json");
    io::Manifest manifest = io::manifest_from_json(data::read_file(path), path);
    change(manifest.run);
    std::ofstream(path) << io::manifest_to_json(manifest);
  }

  /// Returns the digests of all tensors in the checkpoint of step 6.
  std::vector<std::string> end_of(const std::string& run) const {
    auto checkpoint = io::Checkpoint::open(folder_ / (run + "/checkpoints/step-00000006"), io::Check::full);
    std::vector<std::string> digests;
    for (const auto& t : checkpoint.manifest().tensors)
      for (const auto& piece : t.pieces) digests.push_back(t.name + " " + piece.digest);
    EXPECT_GT(digests.size(), 10u);
    return digests;
  }

 private:
  Scratch folder_;
};

// Sets the order of data in the run.
void say(io::RunState& run, const std::string& shuffle) {
  json position = json::parse(run.data_position);
  position["shuffle"] = shuffle;
  run.data_position = position.dump();
}

// Removes the order of data from the run. Older programs did not write the order.
void say_nothing(io::RunState& run) {
  json position = json::parse(run.data_position);
  ASSERT_EQ(position.erase("shuffle"), 1u);
  run.data_position = position.dump();
  const std::string line = "  shuffle: documents\n";
  const size_t at = run.recipe.find(line);
  ASSERT_NE(at, std::string::npos);
  run.recipe.erase(at, line.size());
}

TEST(DataOrder, IsKeptByAResumedRunBitForBit) {
  const Runs runs;
  for (const std::string order : {"documents", "sequences"}) {
    runs.train(order, {"data.shuffle=" + order});
    runs.copy_checkpoint(order, "resumed " + order, [](io::RunState&) {});
    runs.train("resumed " + order);
    EXPECT_EQ(runs.end_of("resumed " + order), runs.end_of(order));
  }
  EXPECT_NE(runs.end_of("documents"), runs.end_of("sequences"));
}

TEST(DataOrder, IsByDocumentWhenTheCheckpointNamesNone) {
  const Runs runs;
  runs.train("whole", {"data.shuffle=documents"});
  runs.copy_checkpoint("whole", "old", say_nothing);
  runs.train("old");
  EXPECT_EQ(runs.end_of("old"), runs.end_of("whole"));
  auto after = io::Checkpoint::open(runs / "old/checkpoints/step-00000006", io::Check::full);
  EXPECT_EQ(json::parse(after.manifest().run.data_position).at("shuffle"), "documents");
}

TEST(DataOrder, DefaultsToSequences) {
  const Runs runs;
  runs.train("plain"), runs.train("sequences", {"data.shuffle=sequences"});
  EXPECT_EQ(runs.end_of("plain"), runs.end_of("sequences"));
}

TEST(DataOrder, IsRefusedWhenItIsUnknownOrDiffersFromTheRecipe) {
  const Runs runs;
  runs.train("whole", {"data.shuffle=documents"});
  runs.copy_checkpoint("whole", "old", say_nothing);
  runs.copy_checkpoint("whole", "newer", [](io::RunState& run) { say(run, "tokens"); });
  const auto text = message_of(ExitCode::usage, [&] { runs.train("old", {"data.shuffle=sequences"}); });
  EXPECT_NE(text.find("the recipe has changed:\n  data.shuffle: documents -> sequences"), std::string::npos) << text;
  const auto unknown = message_of(ExitCode::data, [&] { runs.train("newer"); });
  EXPECT_NE(unknown.find("shuffled by 'tokens', expected sequences or documents"), std::string::npos) << unknown;
}

}  // namespace
}  // namespace hexad::tests
