// Datasets of Megatron-LM: both versions of the index, all types of ids, and damage.
#include "framework/data/megatron_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/data/inspect_dataset.h"
#include "framework/data/packed_source.h"
#include "framework/data/training_data.h"
#include "tests/data/data_folder.h"
#include "tests/support/target_count.h"

namespace hexad::data {

using base::cat;
namespace {

using Ids = std::vector<int32_t>;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Parts of a dataset. Tests may change them before the dataset is written.
struct Parts {
  std::vector<Ids> sequences = {{1, 2, 3}, {4}, {}, {5, 6}};
  std::vector<int64_t> documents = {0, 2, 4};
  uint64_t version = 1;
  uint64_t dtype = 8;
  int64_t moved = 0;  // shift of the last sequence in the index, in tokens
};

template <class T>
std::string ids_of(const Parts& parts) {
  std::string bytes;
  for (const Ids& ids : parts.sequences)
    for (const int32_t id : ids) append(bytes, static_cast<T>(id));
  return bytes;
}

template <class T>
std::string index_now(const Parts& parts) {
  std::string bytes("MMIDIDX\0\0", 9);
  append(bytes, parts.version);
  append(bytes, static_cast<uint8_t>(parts.dtype));
  append<uint64_t>(bytes, parts.sequences.size());
  append<uint64_t>(bytes, parts.documents.size());
  for (const Ids& ids : parts.sequences) append(bytes, static_cast<int32_t>(ids.size()));
  int64_t at = 0;
  for (size_t i = 0; i < parts.sequences.size(); ++i) {
    append(bytes, (at + (i + 1 == parts.sequences.size() ? parts.moved : 0)) * int64_t{sizeof(T)});
    at += std::ssize(parts.sequences[i]);
  }
  for (const int64_t d : parts.documents) append(bytes, d);
  return bytes;
}

template <class T>
std::string index_before(const Parts& parts) {
  std::string bytes("TNTIDX\0\0", 8);
  append(bytes, parts.version);
  append(bytes, parts.dtype);
  append<uint64_t>(bytes, sizeof(T));
  append<uint64_t>(bytes, parts.sequences.size());
  append<uint64_t>(bytes, parts.sequences.size());
  append<uint64_t>(bytes, parts.documents.size());
  for (size_t i = 0; i <= parts.sequences.size(); ++i) append(bytes, static_cast<int64_t>(i));
  int64_t at = 0;
  append(bytes, at);
  for (const Ids& ids : parts.sequences) append(bytes, at += std::ssize(ids));
  for (const Ids& ids : parts.sequences) append<int64_t>(bytes, std::ssize(ids));
  for (const int64_t d : parts.documents) append(bytes, d);
  return bytes;
}

struct Files {
  ScratchFolder folder;

  /// Writes the ids to NAME.bin and the index to NAME.idx. Returns the path of the index.
  std::string write(const std::string& index, const std::string& ids, const std::string& name = "x") const {
    folder.write(name + ".bin", ids);
    return folder.write(name + ".idx", index);
  }
  std::string refusal(const std::string& index, const std::string& ids) const {
    const std::string path = write(index, ids);
    return message_of(ExitCode::data, [&] { read_megatron_index(path); });
  }
};

Ids all_ids(const TokenDataset& dataset) {
  Ids ids(dataset.tokens());
  dataset.read_ids(0, ids);
  return ids;
}

template <class T>
void expect_read(uint64_t dtype) {
  const Files files;
  Parts parts;
  parts.dtype = dtype;
  for (const std::string& index : {index_now<T>(parts), index_before<T>(parts)}) {
    const TokenDataset dataset(files.write(index, ids_of<T>(parts)), {.vocab_size = 7});
    EXPECT_EQ(all_ids(dataset), (Ids{1, 2, 3, 4, 5, 6})) << "dtype " << dtype;
    EXPECT_EQ(std::vector<int64_t>(dataset.offsets().begin(), dataset.offsets().end()),
              (std::vector<int64_t>{0, 4, 6}));
    EXPECT_EQ(dataset.documents(), 2);
    EXPECT_FALSE(dataset.has_tokenizer());
    EXPECT_FALSE(dataset.has_loss_mask());
  }
}

TEST(MegatronIndex, BothVersionsAreReadWithAllTypesOfIds) {
  expect_read<uint8_t>(1);
  expect_read<int8_t>(2);
  expect_read<int16_t>(3);
  expect_read<int32_t>(4);
  expect_read<int64_t>(5);
  expect_read<uint16_t>(8);
}

TEST(MegatronIndex, IdsAreCheckedAgainstTheVocabulary) {
  const Files files;
  Parts parts;
  parts.dtype = 5;
  parts.sequences[3] = {5, -1};
  const std::string path = files.write(index_now<int64_t>(parts), ids_of<int64_t>(parts));
  expect_contains(message_of(ExitCode::data, [&] { TokenDataset(path, {.vocab_size = 100}); }),
                  "x.bin: token 5 has id -1, expected 0 to 99");
  const std::string large = files.write(index_now<uint16_t>({}), ids_of<uint16_t>({}));
  expect_contains(message_of(ExitCode::data, [&] { TokenDataset(large, {.vocab_size = 6}); }),
                  "x.bin: token 5 has id 6, expected 0 to 5");
}

TEST(MegatronIndex, DamageIsNamed) {
  const Files files;
  const std::string ids = ids_of<uint16_t>({}), now = index_now<uint16_t>({}), before = index_before<uint16_t>({});
  for (const std::string& index : {now, before}) {
    for (size_t n = 9; n < index.size(); ++n) {
      const std::string text = files.refusal(index.substr(0, n), ids);
      EXPECT_TRUE(text.find("x.idx: truncated") != text.npos) << n << ": " << text;
    }
    expect_contains(files.refusal(index + "x", ids), "x.idx: too long: ");
    expect_contains(files.refusal(index, ids.substr(2)), "but ");
    expect_contains(files.refusal(index, ids + "ab"), "x.bin: has 7 tokens (14 bytes), expected 6");
    expect_contains(files.refusal(index, ids + "a"), "x.bin: has 13 bytes, expected a multiple of 2");
  }
  expect_contains(files.refusal("", ids), "x.idx: is not an index of Megatron-LM");
  expect_contains(files.refusal("words and more", ids), "x.idx: is not an index of Megatron-LM");
  expect_contains(files.refusal(now + std::string(4, '\0'), ids), "x.idx: has sequence modes");

  const auto changed = [&](auto&& change) {
    Parts parts;
    change(parts);
    return files.refusal(index_now<uint16_t>(parts), ids);
  };
  expect_contains(changed([](Parts& p) { p.version = 2; }), "x.idx: index version 2, expected 1");
  expect_contains(changed([](Parts& p) { p.dtype = 9; }), "x.idx: dtype code 9, expected 1 to 8");
  expect_contains(changed([](Parts& p) { p.dtype = 7; }), "x.idx: dtype code 7 (float32), expected an integer type");
  expect_contains(changed([](Parts& p) { p.moved = 1; }), "x.idx: sequence 3 begins at token 5, expected 4");
  expect_contains(changed([](Parts& p) { p.moved = -5; }), "x.idx: sequence 3 begins at token -1, expected 4");
  std::string negative = now;
  const int32_t size = -1;
  negative.replace(9 + 8 + 1 + 8 + 8, sizeof size, reinterpret_cast<const char*>(&size), sizeof size);
  expect_contains(files.refusal(negative, ids), "x.idx: sequence 0 has -1 tokens, expected at least 0");
  expect_contains(changed([](Parts& p) { p.documents = {0, 2}; }), "document boundaries are 0 to 2, expected 0 to 4");
  expect_contains(changed([](Parts& p) {
                    p.documents = {0, 3, 2, 4};
                  }),
                  "document 1 ends at sequence 2, expected 3 to 4");
  expect_contains(changed([](Parts& p) { p.documents = {}; }), "document boundaries are missing");
}

TEST(MegatronIndex, EmptyIndexIsNotTakenForMultimodal) {
  const Files files;
  Parts parts;
  parts.sequences = {};
  parts.documents = {0};
  const MegatronIndex index = read_megatron_index(files.write(index_now<uint16_t>(parts), ""));
  EXPECT_EQ(index.sequences, 0);
  EXPECT_EQ(index.offsets, std::vector<int64_t>{0});
}

TEST(MegatronIndex, InspectionNamesIdsBeyondTheTokenizer) {
  const Files files;
  Parts parts;
  parts.sequences[0][0] = 300;
  const std::string path = files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts));
  make_byte_tokenizer()->save(files.folder / "tokenizer.json");
  expect_contains(message_of(ExitCode::data, [&] { open_dataset(path, DatasetCheck::everything, [](const auto&) {}); }),
                  "x.bin: token 0 has id 300, expected 0 to 257");
}

TEST(MegatronIndex, MissingIdsAreNamed) {
  const ScratchFolder folder;
  const std::string path = folder.write("y.idx", index_now<uint16_t>({}));
  expect_contains(message_of(ExitCode::data, [&] { read_megatron_index(path); }), "y.bin: cannot be opened");
}

TEST(MegatronIndex, FingerprintDependsOnBothFiles) {
  const Files files;
  Parts parts;
  const Digest first = read_megatron_index(files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts))).digest;
  EXPECT_EQ(read_megatron_index(files.folder / "x.idx").digest, first);
  parts.sequences[0][0] = 9;
  const Digest other = read_megatron_index(files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts))).digest;
  EXPECT_NE(other, first);
  parts.documents = {0, 1, 4};
  EXPECT_NE(read_megatron_index(files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts))).digest, other);
}

TEST(MegatronIndex, TrainsWithoutATokenizer) {
  const Files files;
  Parts parts;
  DataConfig config;
  config.dataset = files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts));
  const TrainingDataOptions options{.context = 4, .vocab_size = 8};
  TrainingData data = open_training_data(config, options);
  EXPECT_EQ(data.tokenizer, nullptr);
  EXPECT_EQ(data.fingerprints.size(), 1u);
  EXPECT_EQ(data.missing_heldout, std::vector<std::string>{files.folder / "x.heldout.idx"});
  EXPECT_GT(tests::target_count(data.train->batch(0, 2)), 0);

  files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts), "x.heldout");
  EXPECT_EQ(open_training_data(config, options).heldout->size(), 2);
  config.mlm_probability = 0.1;
  expect_contains(message_of(ExitCode::usage, [&] { open_training_data(config, options); }),
                  "x.idx has no tokenizer.json next to it, so there is no mask token");
  config.mlm_probability = 0;
  expect_contains(message_of(ExitCode::data, [&] { open_training_data(config, {.context = 4, .vocab_size = 6}); }),
                  "token 5 has id 6, expected 0 to 5");
}

TEST(MegatronIndex, TokenizerNextToTheIndexSetsTheVocabulary) {
  const Files files;
  Parts parts;
  DataConfig config;
  config.dataset = files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts));
  make_byte_tokenizer()->save(files.folder / "tokenizer.json");
  const TrainingDataOptions options{.context = 4, .vocab_size = 300};
  EXPECT_NE(open_training_data(config, options).tokenizer, nullptr);
  parts.sequences[0][0] = 258;
  files.write(index_now<uint16_t>(parts), ids_of<uint16_t>(parts));
  expect_contains(message_of(ExitCode::data, [&] { open_training_data(config, options); }),
                  "token 0 has id 258, expected 0 to 257");
}

}  // namespace
}  // namespace hexad::data
