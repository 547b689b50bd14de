// Opening of the data that a recipe's section `data` names: datasets, mixtures and synthetic tokens.
#include "framework/data/training_data.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/config/typed_recipe.h"
#include "tests/data/corpus.h"
#include "tests/data/tokenizers/hand_made.h"
#include "tests/support/target_count.h"

namespace hexad::data {

using namespace base;
namespace {

struct Prepared : TextCorpus {
  TrainingDataOptions opening{.context = 32, .vocab_size = 512, .seed = 3};
  DataConfig config;

  Prepared() {
    prepare(options);
    config.dataset = options.output;
  }
  TrainingData open() const { return open_training_data(config, opening); }
};

TEST(TrainingData, OpensAFolder) {
  const Prepared p;
  const TrainingData data = p.open();
  EXPECT_EQ(data.train->context(), 32);
  EXPECT_EQ(data.train->batch(0, 4).ids.size(), 128u);
  EXPECT_EQ(data.fingerprints.size(), 1u);
  // All held-out tokens are predicted, except the first token of each document.
  const TokenDataset heldout(p.folder / "out/heldout.hxd");
  const Batch all = data.heldout->batch(0, data.heldout->size());
  EXPECT_EQ(tests::target_count(all), heldout.tokens() - heldout.documents());
  int64_t first_bytes = 0;
  for (int64_t d = 0; d < heldout.documents(); ++d) {
    std::vector<int32_t> id(1);
    heldout.read_ids(heldout.offsets()[d], id);
    first_bytes += static_cast<int64_t>(data.tokenizer->bytes_of(id[0]).size());
  }
  const std::vector<int32_t> bytes_of_ids = bytes_per_id(*data.tokenizer);
  int64_t bytes = 0;
  for (const int32_t target : all.targets)
    if (target != ignored) bytes += bytes_of_ids[target];
  EXPECT_EQ(bytes, heldout.text_bytes() - first_bytes);
}

TEST(TrainingData, MixesFoldersMadeWithOneTokenizer) {
  Prepared p;
  p.options.tokenizer = p.folder / "out/tokenizer.json";
  p.options.output = p.folder / "second";
  p.options.inputs = {p.folder / "text/a.txt"};
  prepare(p.options);
  p.config.dataset.clear();
  p.config.mixture = {{p.folder / "out", 3}, {p.folder / "second", 1}};
  const TrainingData data = p.open();
  EXPECT_EQ(data.fingerprints.size(), 2u);
  EXPECT_EQ(data.train->batch(0, 8).count, 8);
  EXPECT_GT(data.heldout->size(), 0);
  p.opening.expected = data.fingerprints;
  EXPECT_NO_THROW(p.open());

  p.options.tokenizer = "bytes";
  p.options.force = true;
  prepare(p.options);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }),
                  "second/tokenizer.json: differs from the tokenizer of");
}

TEST(TrainingData, IsShuffledInTheOrderOfTheRecipe) {
  Prepared p;
  const auto firsts = [&](std::optional<Shuffle> shuffle) {
    p.config.shuffle = shuffle;
    const TrainingData data = p.open();
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 50; ++i) ids.push_back(data.train->batch(i, 1).ids[0]);
    return ids;
  };
  EXPECT_EQ(firsts(std::nullopt), firsts(Shuffle::sequences));
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
  p.config.mlm_probability = 0.25;
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
  p.config.mlm_probability = 0;
  p.config.dataset.clear();
  p.config.mixture = {{p.folder / "out", 1}, {p.folder / "out", 1}};
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
}

TEST(TrainingData, ChangesSinceTheCheckpointAreNamed) {
  Prepared p;
  p.opening.expected = p.open().fingerprints;
  p.folder.write("text/b.txt", book(100, 202));
  p.options.force = true;
  prepare(p.options);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "out/train.hxd: changed since the checkpoint");
  p.opening.expected = std::vector<Digest>(2);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }),
                  "the number of datasets is 1, expected 2, the number on which the checkpoint was trained");
}

TEST(TrainingData, ForeignTokenizerIsNamed) {
  const Prepared p;
  make_byte_tokenizer()->save(p.folder / "out/tokenizer.json");
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "out/train.hxd: was made with tokenizer ");
}

// Ids are checked only against the vocabulary that the dataset claims to have.
TEST(TrainingData, DatasetWithMoreIdsThanItsTokenizerIsNamed) {
  const Prepared p;
  const auto tokenizer = load_tokenizer(p.folder / "out/tokenizer.json");
  TokenDatasetWriter writer(p.folder / "out/train.hxd", tokenizer->vocab_size() + 1, tokenizer->fingerprint());
  writer.finish();
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }),
                  "out/train.hxd: has a vocabulary of 401 ids, but tokenizer.json next to it has 400");
}

TEST(TrainingData, TooSmallModelVocabularyIsAUsageError) {
  Prepared p;
  p.opening.vocab_size = 399;
  expect_contains(message_of(ExitCode::usage, [&] { p.open(); }), "model.vocab (399) must be at least");
}

TEST(TrainingData, MasksForTheMaskedLmObjective) {
  Prepared p;
  p.config.mlm_probability = 0.25;
  const TrainingData data = p.open();
  const Batch batch = data.train->batch(0, 16);
  EXPECT_NEAR(static_cast<double>(tests::target_count(batch)), 128, 5 * std::sqrt(512 * 0.25 * 0.75));
  p.opening.seed = 4;
  EXPECT_EQ(p.open().heldout->batch(0, 1).ids, data.heldout->batch(0, 1).ids)
      << "held-out masks do not depend on the seed";
}

TEST(TrainingData, MaskedLmRefusesALossMask) {
  Prepared p;
  p.config.mlm_probability = 0.25;
  const auto tokenizer = load_tokenizer(p.folder / "out/tokenizer.json");
  TokenDatasetWriter writer(p.folder / "out/train.hxd", tokenizer->vocab_size(), tokenizer->fingerprint(), true);
  writer.add_document(std::vector<int32_t>{1, 2}, 2, std::vector<uint8_t>{1, 0});
  writer.finish();
  expect_contains(message_of(ExitCode::usage, [&] { p.open(); }), "data.mlm_probability (0.25) must be 0: ");
}

TEST(TrainingData, SyntheticNeedsNoFiles) {
  const TrainingData data = open_training_data({.synthetic = true}, {.context = 8, .vocab_size = 50});
  EXPECT_EQ(tests::target_count(data.train->batch(5, 2)), 16);
  EXPECT_EQ(data.heldout, nullptr);
}

struct Recipe {
  DataConfig data;
  template <class V>
  void fields(V& v) {
    v("data", data, "data");
  }
};

TEST(DataConfig, ExactlyOneKindOfDataIsGiven) {
  const auto problems = [](const std::string& yaml) {
    const ScratchFolder folder;
    config::Problems found;
    check(config::read<Recipe>(config::load(folder.write("r.yaml", yaml), {}), found).data, found);
    return found.text();
  };
  EXPECT_EQ(problems("data: {dataset: x}"), "");
  EXPECT_EQ(problems("data: {synthetic: true}"), "");
  EXPECT_EQ(problems("data: {mixture: [{dataset: x, weight: 2}], packing: joined, check: structure}"), "");
  expect_contains(problems("data: {packing: joined}"), "exactly one of the four, but none is set");
  expect_contains(
      problems("data: {dataset: x, synthetic: true}"),
      "exactly one of the four, but these are set: data.dataset, data.synthetic; to use another of the four, "
      "remove data.dataset, or give data.dataset='\"\"' on the command line");
  EXPECT_TRUE(problems("data: {source: x, synthetic: true}").ends_with("these are set: data.synthetic, data.source"));
  expect_contains(problems("data: {synthetic: true, mlm_probability: 0.1}"), "must be 0 with data.synthetic");
  expect_contains(problems("data: {mixture: [{dataset: x, weight: -1}]}"), "must be greater than 0");
}

TEST(TrainingData, TokenizersOfOtherProgramsHaveNoMask) {
  Prepared p;
  p.options.tokenizer = p.folder.write("model/tokenizer.json", byte_level_json().dump());
  p.options.force = true;
  prepare(p.options);
  EXPECT_EQ(p.open().tokenizer->vocab_size(), 259);
  p.config.mlm_probability = 0.25;
  expect_contains(message_of(ExitCode::usage, [&] { p.open(); }), "has no mask id");
}

}  // namespace
}  // namespace hexad::data
