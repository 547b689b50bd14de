// Opening of the training data on all ranks: the ranks that read the files, and errors that reach all ranks.
#include "tools/train/recipe/data_on_ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/data/prepare.h"
#include "parallel/comm/thread_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
using base::cat;
namespace {

// Datasets of the numbers from 0 to `count` - 1.
class Datasets {
 public:
  std::string folder(int count) const {
    const std::string name = cat("data-", count);
    if (std::filesystem::exists(folder_ / name)) return folder_ / name;
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < count; ++i) text << i << ' ';
    text.close();
    data::prepare({.inputs = {folder_ / "text"},
                   .output = folder_ / name,
                   .tokenizer = "bytes",
                   .split = {.separator = "", .longest_bytes = 2000},
                   .heldout = 0.2});
    return folder_ / name;
  }
  Recipe recipe(int count, std::vector<std::string> keys = {}) const {
    keys.insert(keys.end(), {"data.synthetic=false", cat("data.dataset=", folder(count)), "model.vocab=258"});
    return small_recipe(keys);
  }

 private:
  Scratch folder_;
};

constexpr int ranks = 4;

// Runs `body` on the ranks, which are on two nodes.
void on_two_nodes(const std::function<void(const comm::ProcessGroup& world)>& body) {
  comm::with_ranks(ranks, body, {.node_of_rank = {0, 1, 0, 1}});
}

TEST(DataOnRanks, OneRankOfEachNodeReadsTheFiles) {
  const Datasets datasets;
  const Recipe recipe = datasets.recipe(3000), unchecked = datasets.recipe(3000, {"data.check=structure"});
  std::array<std::atomic<int>, ranks> moves{}, moves_unchecked{};
  on_two_nodes([&](const comm::ProcessGroup& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const base::FileWork work, work_unchecked;
    work.on_move([&, rank](uint64_t) { ++moves[rank]; });
    work_unchecked.on_move([&, rank](uint64_t) { ++moves_unchecked[rank]; });
    const data::TrainingData data = open_data_on_ranks(recipe, Registry(), world, work);
    EXPECT_GT(data.train->size(), 0);
    EXPECT_EQ(data.fingerprints.size(), 1u);
    open_data_on_ranks(unchecked, Registry(), world, work_unchecked);
  });
  EXPECT_GT(moves[0].load(), 0);
  EXPECT_EQ(moves[1].load(), moves[0].load());
  EXPECT_EQ(moves[2].load(), 0);
  EXPECT_EQ(moves[3].load(), 0);
  for (const auto& number : moves_unchecked) EXPECT_EQ(number.load(), 0);
}

// Returns the errors of all ranks.
std::array<std::string, ranks> errors_of(const std::function<void(const comm::ProcessGroup& world)>& body) {
  std::array<std::string, ranks> errors;
  on_two_nodes([&](const comm::ProcessGroup& world) {
    errors[static_cast<size_t>(world.rank())] = message_of(ExitCode::data, [&] { body(world); });
  });
  return errors;
}

TEST(DataOnRanks, DamageThatOneRankFindsReachesAllRanks) {
  const Datasets datasets;
  const Recipe recipe = datasets.recipe(3000);
  const std::string path = datasets.folder(3000) + "/train.hxd";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(300);  // a byte of the text, after the header
  file.put('!');
  file.close();
  const auto errors =
      errors_of([&](const comm::ProcessGroup& world) { open_data_on_ranks(recipe, Registry(), world, {}); });
  EXPECT_NE(errors[0].find(path + ": damaged: its contents have digest "), std::string::npos) << errors[0];
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
}

TEST(DataOnRanks, ErrorOfARankThatReadsNoContentsReachesAllRanks) {
  const Datasets datasets;
  const Recipe good = datasets.recipe(3000), bad = small_recipe({"data.synthetic=false", "data.dataset=nowhere"});
  const auto errors = errors_of([&](const comm::ProcessGroup& world) {
    open_data_on_ranks(world.rank() == 3 ? bad : good, Registry(), world, {});
  });
  EXPECT_NE(errors[0].find("nowhere"), std::string::npos) << errors[0];
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
}

TEST(DataOnRanks, OtherDatasetsOnOneRankAreNamed) {
  const Datasets datasets;
  const Recipe good = datasets.recipe(3000), other = datasets.recipe(2000);
  const auto errors = errors_of([&](const comm::ProcessGroup& world) {
    open_data_on_ranks(world.rank() == 1 ? other : good, Registry(), world, {});
  });
  EXPECT_NE(errors[0].find("data-2000: rank 1 has a different dataset from rank 0: fingerprint "), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[0].find("; copy the same files to all nodes"), std::string::npos) << errors[0];
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
}

TEST(DataOnRanks, OtherNumbersOfDatasetsAreNamed) {
  const Datasets datasets;
  const std::string many =
      cat("data.mixture=[{dataset: ", datasets.folder(3000), ", weight: 1}, {dataset: ", datasets.folder(2000),
          ", weight: 1}, {dataset: ", datasets.folder(1000), ", weight: 1}]");
  const Recipe one = datasets.recipe(3000), three = small_recipe({"data.synthetic=false", many, "model.vocab=258"});
  for (const bool more : {false, true}) {
    const auto errors = errors_of([&](const comm::ProcessGroup& world) {
      open_data_on_ranks((world.rank() == 2) == more ? three : one, Registry(), world, {});
    });
    for (const std::string& error : errors)
      EXPECT_EQ(error, cat("data: rank 2 has ", more ? "3 datasets" : "1 dataset", ", but rank 0 has ", more ? 1 : 3,
                           "; expected the same datasets on all ranks"));
  }
}

TEST(DataOnRanks, MissingHeldOutFileOfOneRankIsNamed) {
  const Datasets datasets;
  const Recipe good = datasets.recipe(3000);
  const std::string copy = datasets.folder(3000) + "-copy";
  std::filesystem::copy(datasets.folder(3000), copy);
  std::filesystem::remove(copy + "/heldout.hxd");
  const Recipe other = small_recipe({"data.synthetic=false", cat("data.dataset=", copy), "model.vocab=258"});
  const auto errors = errors_of([&](const comm::ProcessGroup& world) {
    open_data_on_ranks(world.rank() == 3 ? other : good, Registry(), world, {});
  });
  EXPECT_TRUE(errors[0].starts_with("data: rank 3 has 0 held-out sequences, but rank 0 has ")) << errors[0];
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
}

}  // namespace
}  // namespace hexad::tests
