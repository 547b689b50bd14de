// Runs that continue with other weights of data.mixture: each dataset continues after its own last sequence.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "framework/data/file.h"
#include "framework/data/prepare.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/checkpoint/start_check.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

namespace fs = std::filesystem;
using base::cat;
using Counts = std::vector<int64_t>;

// Two datasets, and runs on a mixture of both. A run has 9 steps, each with 8 sequences of 8 tokens.
class MixedRuns {
 public:
  MixedRuns() {
    for (const int first : {0, 5000}) {
      std::ofstream text(folder_ / "text");
      for (int i = first; i < first + 3000; ++i) text << i << ' ';
      text.close();
      data::prepare({.inputs = {folder_ / "text"},
                     .output = folder_ / cat("from ", first),
                     .tokenizer = "bytes",
                     .split = {.separator = "", .longest_bytes = 2000},
                     .heldout = 0});
    }
  }

  Recipe recipe(const std::string& run, const std::string& first, const std::string& second) const {
    return small_recipe({"run.dir=" + folder_ / run, "data.synthetic=false",
                         cat("data.mixture=[{dataset: \"", folder_ / "from 0", "\", weight: ", first, "}, {dataset: \"",
                             folder_ / "from 5000", "\", weight: ", second, "}]"),
                         "model.vocab=258", "train.steps=9", "checkpoint.every=3", "checkpoint.keep=0"});
  }
  void train(const std::string& run, const std::string& first, const std::string& second) const {
    const comm::World world;
    ASSERT_EQ(Trainer(recipe(run, first, second), Registry(), world).run(), ExitCode::done);
  }
  void copy_checkpoint(int step, const std::string& from, const std::string& to) const {
    fs::create_directories(folder_ / (to + "/checkpoints"));
    fs::copy(folder(step, from), folder(step, to), fs::copy_options::recursive);
  }

  io::Checkpoint checkpoint(int step, const std::string& run) const {
    return io::Checkpoint::open(folder(step, run), io::Check::full);
  }
  /// Returns the digests of all tensors in the checkpoint of step 9.
  std::vector<std::string> end_of(const std::string& run) const {
    std::vector<std::string> digests;
    const io::Checkpoint end = checkpoint(9, run);
    for (const auto& t : end.manifest().tensors)
      for (const auto& piece : t.pieces) digests.push_back(t.name + " " + piece.digest);
    EXPECT_GT(digests.size(), 10u);
    return digests;
  }
  /// Returns the number of sequences of each dataset in data.json.
  Counts seen_by(const std::string& run) const {
    Counts counts;
    const auto json = nlohmann::json::parse(data::read_file(folder_ / (run + "/data.json")));
    for (const auto& dataset : json.at("datasets")) counts.push_back(dataset.at("sequences"));
    return counts;
  }

 private:
  std::string folder(int step, const std::string& run) const {
    return folder_ / cat(run, "/checkpoints/step-0000000", step);
  }

  Scratch folder_;
};

TEST(MixtureStart, ChangedWeightsApplyToLaterSequencesOnly) {
  const MixedRuns runs;
  runs.train("whole", "3", "1");
  EXPECT_EQ(runs.seen_by("whole"), (Counts{54, 18}));
  EXPECT_TRUE(saved_mixture_start(runs.checkpoint(9, "whole")).drawn.empty());

  runs.copy_checkpoint(3, "whole", "changed");
  runs.train("changed", "1", "3");
  EXPECT_EQ(runs.seen_by("changed"), (Counts{18 + 12, 6 + 36}));
  const data::MixtureStart start = saved_mixture_start(runs.checkpoint(6, "changed"));
  EXPECT_EQ(start.sequence, 24);
  EXPECT_EQ(start.drawn, (Counts{18, 6}));

  // Continues once more, with weights in the same ratio. The results do not change.
  runs.copy_checkpoint(6, "changed", "again");
  runs.train("again", "0.25", "0.75");
  EXPECT_EQ(runs.end_of("again"), runs.end_of("changed"));
  EXPECT_EQ(runs.seen_by("again"), runs.seen_by("changed"));
}

TEST(MixtureStart, UnchangedSharesContinueBitForBit) {
  const MixedRuns runs;
  runs.train("whole", "3", "1");
  runs.copy_checkpoint(3, "whole", "resumed");
  runs.train("resumed", "0.75", "0.25");
  EXPECT_EQ(runs.end_of("resumed"), runs.end_of("whole"));
  const io::Checkpoint checkpoint = runs.checkpoint(3, "whole");
  EXPECT_TRUE(cautions_of_resume(checkpoint, runs.recipe("resumed", "0.75", "0.25")).empty());
  const auto warnings = cautions_of_resume(checkpoint, runs.recipe("resumed", "1", "1"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("data.mixture.0.weight: 3 -> 1 since "), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("; each dataset continues after the sequences already drawn from it; restore the value"),
            std::string::npos)
      << warnings[0];
}

TEST(MixtureStart, CountsSequencesOfTheNewContext) {
  const MixedRuns runs;
  runs.train("whole", "3", "1");
  Recipe longer = runs.recipe("whole", "1", "3");
  longer.model.context = 16;
  const data::MixtureStart start = mixture_start(runs.checkpoint(3, "whole"), longer);
  EXPECT_EQ(start.sequence, 12);
  EXPECT_EQ(start.drawn, (Counts{9, 3}));
}

}  // namespace
}  // namespace hexad::tests
