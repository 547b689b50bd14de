#include "framework/data/data_use.h"

#include <gtest/gtest.h>

#include "framework/data/mixture_source.h"
#include "tests/data/corpus.h"

namespace hexad::data {
namespace {

struct Mixed : TextCorpus {
  DataConfig config;

  Mixed() {
    options.tokenizer = "bytes";
    prepare(options);
    options.output = folder / "second";
    options.inputs = {folder / "text/a.txt"};
    prepare(options);
    config.mixture = {{folder / "out", 3}, {folder / "second", 1}};
  }
  TrainingData open(const MixtureStart& start = {}) const {
    return open_training_data(config, {.context = 32, .vocab_size = 300, .mixture_start = start});
  }
};

TEST(DataUse, CountsTheSequencesOfEachPartOfAMixture) {
  const Mixed m;
  const TrainingData data = m.open();
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, MixtureDivision::block_size + 5}) {
    std::vector<int64_t> counted(2, 0);
    for (int64_t i = 0; i < n; ++i) ++counted[data.mixture->place(i).part];
    EXPECT_EQ(data.mixture->drawn(n), counted) << n << " sequences";
  }
  const auto uses = dataset_uses(data, 400);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].sequences, 300);
  EXPECT_EQ(uses[1].sequences, 100);
  EXPECT_EQ(uses[0].share, 0.75);
  for (const DatasetUse& use : uses)
    EXPECT_DOUBLE_EQ(use.epochs, static_cast<double>(use.sequences * 32) / static_cast<double>(use.dataset.tokens));
  const auto lines = lines_of(uses);
  ASSERT_EQ(lines.size(), 2u);
  expect_contains(lines[0], m.folder / "out" + ": 75.0% of the sequences, ");
  expect_contains(lines[1], m.folder / "second" + ": 25.0% of the sequences, ");
}

TEST(DataUse, CountsSequencesThatWereDrawnWithEarlierWeights) {
  Mixed m;
  m.config.mixture[0].weight = 1, m.config.mixture[1].weight = 9;
  const TrainingData data = m.open({.sequence = 800, .drawn = {720, 80}});
  const auto uses = dataset_uses(data, 880);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].sequences, 728);
  EXPECT_EQ(uses[1].sequences, 152);
  EXPECT_NEAR(uses[0].share, 0.1, 1e-4);
  EXPECT_DOUBLE_EQ(uses[1].epochs, 152.0 * 32 / static_cast<double>(uses[1].dataset.tokens));
  expect_contains(data_manifest(data, 880, 110), "\"seen_tokens\": 4864");
}

TEST(DataUse, ManifestNamesTheDataThatARunHasSeen) {
  Mixed m;
  m.config = {.dataset = m.folder / "second"};
  const TrainingData data = m.open();
  EXPECT_EQ(data.mixture, nullptr);
  const TokenDataset train(m.folder / "second/train.hxd");
  const std::string text = data_manifest(data, 10, 5);
  expect_contains(text, "\"step\": 5");
  expect_contains(text, "\"sequences\": 10");
  expect_contains(text, base::cat("\"dataset\": \"", m.folder / "second", "\""));
  expect_contains(text, base::cat("\"fingerprint\": \"", train.fingerprint(), "\""));
  expect_contains(text, base::cat("\"tokens\": ", train.tokens()));
  expect_contains(text, "\"seen_tokens\": 320");
}

TEST(DataUse, RegisteredSourceHasNoDatasets) {
  const TrainingData data = open_training_data({.synthetic = true}, {.context = 8, .vocab_size = 50});
  EXPECT_TRUE(dataset_uses(data, 10).empty());
}

}  // namespace
}  // namespace hexad::data
