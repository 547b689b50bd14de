#include "framework/data/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/base/philox.h"
#include "framework/data/bpe_tokenizer.h"
#include "framework/data/pretokenize.h"
#include "framework/data/workers.h"
#include "tests/data/data_folder.h"

namespace hexad::data {

using namespace base;
namespace {

const std::string story =
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this "
    "truth is so well fixed in the minds of the surrounding families.\n\nIt's 1813, don't they say?\n";

std::unique_ptr<Tokenizer> trained(int32_t vocab) {
  BpeTrainer trainer;
  trainer.add(story);
  Workers workers(1);
  return trainer.train(vocab, workers);
}

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> result;
  for_each_piece(text, [&](std::string_view piece) { result.emplace_back(piece); });
  return result;
}

std::string random_bytes(uint64_t seed, size_t count) {
  const Philox random(seed, Purpose::synthetic);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(random.below(i, 256));
  return bytes;
}

std::string round_trip(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.decode(tokenizer.encode(text));
}

TEST(Pretokenize, FollowsItsRules) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("Hello world, it's 12345!"), (Pieces{"Hello", " world", ",", " it", "'s", " 123", "45", "!"}));
  EXPECT_EQ(pieces("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(pieces("end\n\nNext\n  x "), (Pieces{"end", "\n\n", "Next", "\n ", " x", " "}));
  EXPECT_EQ(pieces("they'll 'tis"), (Pieces{"they", "'ll", " '", "tis"}));
  EXPECT_EQ(pieces("caf\xc3\xa9 \xe2\x80\x94 ok"), (Pieces{"caf\xc3\xa9", " \xe2\x80\x94", " ok"}));
}

TEST(Pretokenize, KeepsEveryByteAndBoundsThePieces) {
  for (const std::string& text :
       {random_bytes(1, 5000), std::string(1000, 'a'), std::string(1000, ' '), std::string(1000, '\xe2'), story}) {
    std::string joined;
    for (const std::string& piece : pieces(text)) {
      EXPECT_LE(piece.size(), longest_piece);
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Tokenizer, AnyBytesRoundTrip) {
  const auto bytes = make_byte_tokenizer();
  const auto bpe = trained(400);
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text : {std::string(), story, all, std::string(3, '\0'), std::string("\xff\xfe\xc3("),
                                  random_bytes(7, 20000), std::string(3000, 'a')}) {
    EXPECT_EQ(round_trip(*bytes, text), text);
    EXPECT_EQ(round_trip(*bpe, text), text);
  }
}

TEST(Tokenizer, SpecialIdsAreLastAndCarryNoText) {
  const auto bpe = trained(400);
  for (const Tokenizer* t : {make_byte_tokenizer().release(), static_cast<Tokenizer*>(bpe.get())}) {
    EXPECT_EQ(t->end_of_document(), t->vocab_size() - 2);
    EXPECT_EQ(t->mask(), t->vocab_size() - 1);
    EXPECT_EQ(t->bytes_of(t->end_of_document()), "");
    EXPECT_EQ(t->bytes_of(t->mask()), "");
    if (t != bpe.get()) delete t;
  }
}

TEST(Tokenizer, IdOutsideTheVocabularyIsADataError) {
  const auto bytes = make_byte_tokenizer();
  const std::vector<int32_t> ids{65, 258};
  EXPECT_EQ(message_of(ExitCode::data, [&] { bytes->decode(ids); }),
            "token id 258 is not in the tokenizer's vocabulary, expected 0 to 257");
}

TEST(Bpe, MergesTheMostFrequentPairFirst) {
  BpeTrainer trainer;
  Workers workers(1);
  trainer.add("abab abab abab cd");
  const auto merges = trainer.train(258 + 3, workers)->contents().merges;
  ASSERT_EQ(merges.size(), 3u);
  EXPECT_EQ(merges[0], (Merge{'a', 'b'}));
  EXPECT_EQ(merges[1], (Merge{256, 256}));  // "abab" occurs 3 times
  EXPECT_EQ(merges[2], (Merge{' ', 257}));  // " abab" occurs twice
}

TEST(Bpe, PairWithTheSmallestIdsIsMergedAmongEqualCounts) {
  BpeTrainer trainer;
  Workers workers(1);
  trainer.add("xy xy ab ab");
  const auto merges = trainer.train(258 + 1, workers)->contents().merges;
  // The pairs (space, a), (a, b) and (x, y) occur twice, and (space, x) once. Among the first three pairs, (space, a)
  // has the smallest ids.
  ASSERT_EQ(merges.size(), 1u);
  EXPECT_EQ(merges[0], (Merge{' ', 'a'}));
}

TEST(Bpe, TrainingEqualsTheNaiveAlgorithm) {
  // Computes the merges by their definition: counts all pairs again after each merge.
  std::map<std::vector<int32_t>, int64_t> words;
  const std::string text = story + story + " aaaa aaa aaaaa bananas banana";
  for (const std::string& piece : pieces(text)) {
    words[{reinterpret_cast<const unsigned char*>(piece.data()),
           reinterpret_cast<const unsigned char*>(piece.data()) + piece.size()}]++;
  }
  std::vector<Merge> expected;
  while (expected.size() < 150) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [ids, n] : words) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += n;
    }
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best->second < 2) break;
    const auto [left, right] = best->first;
    const auto id = static_cast<int32_t>(256 + expected.size());
    expected.push_back({left, right});
    std::map<std::vector<int32_t>, int64_t> merged;
    for (const auto& [ids, n] : words) {
      std::vector<int32_t> out;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool here = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        out.push_back(here ? id : ids[i]);
        if (here) ++i;
      }
      merged[out] += n;
    }
    words = std::move(merged);
  }
  BpeTrainer trainer;
  Workers workers(1);
  trainer.add(text);
  EXPECT_EQ(trainer.train(static_cast<int32_t>(258 + expected.size()), workers)->contents().merges, expected);
}

TEST(Bpe, OrderOfDocumentsDoesNotMatter) {
  BpeTrainer forward, backward;
  forward.add("one two two"), forward.add("three two");
  backward.add("three two"), backward.add("one two two");
  Workers workers(1);
  EXPECT_EQ(forward.train(300, workers)->fingerprint(), backward.train(300, workers)->fingerprint());
}

// Returns a text of distinct words. Many words contain the same pairs of letters, so several threads merge these pairs.
std::string many_words() {
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    for (int k = i * 7919 % 26000 + 26; k > 0; k /= 26) text += static_cast<char>('a' + k % 26);
    text += ' ';
  }
  return text;
}

TEST(Bpe, NumberOfThreadsDoesNotMatter) {
  const std::string text = many_words();
  std::vector<Merge> wanted;
  for (const int threads : {1, 2, 5}) {
    Workers workers(threads);
    BpeTrainer trainer;
    workers.run(10,
                [&](size_t i) { trainer.add(std::string_view(text).substr(text.size() / 10 * i, text.size() / 10)); });
    const std::vector<Merge> merges = trainer.train(258 + 300, workers)->contents().merges;
    ASSERT_EQ(merges.size(), 300u);
    if (wanted.empty()) wanted = merges;
    EXPECT_EQ(merges, wanted) << threads;
  }
}

TEST(Bpe, SmallTextGivesASmallerVocabulary) {
  BpeTrainer trainer;
  Workers workers(1);
  trainer.add("abc");
  EXPECT_EQ(trainer.train(4096, workers)->vocab_size(), 258);
  EXPECT_LT(trained(4096)->vocab_size(), 4096);
}

TEST(Bpe, CompressesItsTrainingText) {
  const auto bpe = trained(400);
  EXPECT_LT(bpe->encode(story).size() * 3, story.size() * 2);
}

TEST(Bpe, VocabularyOutOfRangeIsAUsageError) {
  EXPECT_EQ(
      message_of(ExitCode::usage, [] { trained(257); }),
      "--vocab asks for a tokenizer vocabulary of 257 ids, expected 258 (256 bytes and 2 special ids) to 1000000 ids");
}

TEST(TokenizerFile, EncodesAlikeAfterSaveAndLoad) {
  const ScratchFolder folder;
  for (const auto& original :
       {std::shared_ptr<Tokenizer>(make_byte_tokenizer()), std::shared_ptr<Tokenizer>(trained(400))}) {
    original->save(folder / "tokenizer.json");
    const auto loaded = load_tokenizer(folder / "tokenizer.json");
    EXPECT_EQ(loaded->fingerprint(), original->fingerprint());
    EXPECT_EQ(loaded->encode(story), original->encode(story));
    EXPECT_EQ(loaded->vocab_size(), original->vocab_size());
  }
}

TEST(TokenizerFile, BytesPerIdCountText) {
  const auto bpe = trained(300);
  const auto bytes = bytes_per_id(*bpe);
  size_t total = 0;
  for (int32_t id : bpe->encode(story)) total += bytes[id];
  EXPECT_EQ(total, story.size());
  EXPECT_EQ(bytes[bpe->end_of_document()], 0);
}

// Returns the error message of loading a tokenizer file whose JSON `damage` has changed.
template <class F>
std::string damaged(F&& damage) {
  const ScratchFolder folder;
  const std::string path = folder / "tokenizer.json";
  trained(300)->save(path);
  nlohmann::json json = nlohmann::json::parse(read_file(path));
  damage(json);
  folder.write("tokenizer.json", json.dump());
  const std::string message = message_of(ExitCode::data, [&] { load_tokenizer(path); });
  expect_contains(message, path);
  return message;
}

TEST(TokenizerFile, DamageIsNamed) {
  expect_contains(damaged([](auto& j) { j = "text"; }), "no 'format'");
  expect_contains(damaged([](auto& j) {
                    j = {{"hidden_size", 64}};
                  }),
                  "no 'format', expected a JSON object with \"format\" (a tokenizer of `hexad prepare`), \"model\" ");
  expect_contains(damaged([](auto& j) { j["format"] = "other"; }), "format is 'other', expected 'hexad-tokenizer'");
  expect_contains(damaged([](auto& j) { j["format"] = 7; }), "'format' is a number, expected a string");
  expect_contains(damaged([](auto& j) { j["version"] = 2; }), "version is 2, expected 1");
  expect_contains(damaged([](auto& j) { j["version"] = nlohmann::json::array(); }), "version is an array");
  expect_contains(damaged([](auto& j) { j["kind"] = "unigram"; }),
                  "kind is 'unigram', expected 'bytes', 'bpe', 'huggingface', ");
  expect_contains(damaged([](auto& j) { j["kind"] = "bytes"; }), "a byte tokenizer has 42 merges");
  expect_contains(damaged([](auto& j) { j.erase("merges"); }), "no 'merges'");
  expect_contains(damaged([](auto& j) {
                    j["merges"][5] = {1, 261};
                  }),
                  "merge 5 is [1, 261], expected a pair of ids from 0 to 260");
  expect_contains(damaged([](auto& j) { j["merges"][5] = {1, -1}; }), "merge 5 is [1, -1], expected a pair");
  expect_contains(damaged([](auto& j) { j["merges"][5] = {1, 2, 3}; }), "merge 5 is a list of 3 elements, expected");
  expect_contains(damaged([](auto& j) { j["merges"][5] = {1.5, 2}; }), "merge 5 is [1.5, 2], expected a pair");
  expect_contains(damaged([](auto& j) { j["merges"][5] = {1, 2}; }), "its digest is");
  expect_contains(damaged([](auto& j) { j["digest"] = "0"; }), "its digest is 0, expected ");
}

TEST(TokenizerFile, TruncatedEmptyMissingAndOtherFilesAreNamed) {
  const ScratchFolder folder;
  const std::string path = folder / "tokenizer.json";
  const auto load = [&] { load_tokenizer(path); };
  expect_contains(message_of(ExitCode::data, load),
                  path + ": there is no such file; to write a tokenizer into the dataset's folder, run");
  std::filesystem::create_directory(folder / "unfinished");
  expect_contains(message_of(ExitCode::data, load),
                  "; if `hexad prepare` is still running, wait until it ends; if it was");
  trained(300)->save(path);
  folder.write("tokenizer.json", read_file(path).substr(0, 200));
  expect_contains(message_of(ExitCode::data, load), path + ": damaged tokenizer: not JSON");
  folder.write("tokenizer.json", "");
  expect_contains(message_of(ExitCode::data, load), path + ": damaged tokenizer: not JSON");
  folder.write("tokenizer.json", std::string(100000, '['));
  expect_contains(message_of(ExitCode::data, load), path + ": damaged tokenizer: not JSON");
  folder.write("tokenizer.json", std::string(100000, '[') + std::string(100000, ']'));
  expect_contains(message_of(ExitCode::data, load), path + ": damaged tokenizer: no 'format'");
  expect_contains(message_of(ExitCode::data, [&] { load_tokenizer(folder.path()); }),
                  path + ": damaged tokenizer: no 'format'");
}

}  // namespace
}  // namespace hexad::data
