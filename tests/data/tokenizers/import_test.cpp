// Tokenizers of other programs, loaded from small hand-made files.
#include <gtest/gtest.h>

#include <thread>

#include "framework/data/prepare.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"
#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

using Ids = std::vector<int32_t>;

struct Loaded {
  ScratchFolder folder;
  std::unique_ptr<Tokenizer> tokenizer;

  Loaded(const std::string& name, const std::string& contents, const TokenizerChoice& choice = {})
      : tokenizer(load_tokenizer(folder.write(name, contents), choice)) {}
  const Tokenizer& operator*() const { return *tokenizer; }
  const Tokenizer* operator->() const { return tokenizer.get(); }
};

const TokenizerChoice cl100k{.end_of_document = "", .pattern = "cl100k"};

TEST(TokenizerJson, MergesBytesByRank) {
  const Loaded t("tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(t->encode("abcab"), (Ids{257, 256}));
  EXPECT_EQ(t->encode(" ab"), (Ids{' ', 256}));
  EXPECT_EQ(t->vocab_size(), 259);
  EXPECT_EQ(t->bytes_of(257), "abc");
}

TEST(TokenizerJson, SpecialTokensInTextAreTextUnlessRequested) {
  const Loaded t("tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(t->end_of_document(), 258);
  EXPECT_EQ(t->bytes_of(258), "");
  const std::string text = "ab<|endoftext|>";
  EXPECT_EQ(t->encode(text).size(), 1 + 13u);
  EXPECT_EQ(t->encode_with_special(text), (Ids{256, 258}));
  EXPECT_EQ(t->decode(t->encode(text)), text);
}

// Returns the set of bytes [begin, end).
ByteRanges trusting(size_t begin, size_t end) {
  ByteRanges ranges;
  ranges.add(begin, end);
  return ranges;
}

TEST(TokenizerJson, OnlyTrustedBytesBecomeSpecialTokens) {
  auto json = byte_level_json();
  int id = 259;
  for (const char* text : {"<s>", "<s>>", "a<s>"})
    json["added_tokens"].push_back({{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
  const Loaded t("tokenizer.json", json.dump());
  EXPECT_EQ(t->encode_with_special("<s>b<s>", trusting(3, 7)), (Ids{'<', 's', '>', 'b', 259}));
  EXPECT_EQ(t->encode_with_special("<s>b<s>", {}), t->encode("<s>b<s>"));
  EXPECT_EQ(t->encode_with_special("b<s>", trusting(0, 3)), (Ids{'b', '<', 's', '>'}))
      << "all bytes of a special token must be trusted";
  EXPECT_EQ(t->encode_with_special("b\xff<s>", trusting(2, 5)), (Ids{'b', 0xff, 259}));
  EXPECT_EQ(t->encode_with_special("<s>>"), (Ids{260}));
  EXPECT_EQ(t->encode_with_special("<s>>", trusting(0, 3)), (Ids{259, '>'}))
      << "a message must not hide a mark's token";
  EXPECT_EQ(t->encode_with_special("a<s>", trusting(1, 4)), (Ids{'a', 259}));
}

TEST(TokenizerJson, SpecialTokensOfNormalizedTextAreTrustedApart) {
  auto json = byte_level_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"].push_back({{"id", 259}, {"content", "<END>"}, {"special", true}, {"normalized", true}});
  const Loaded t("tokenizer.json", json.dump());
  EXPECT_EQ(t->encode_with_special("A<end>"), (Ids{'a', 259}));
  EXPECT_EQ(t->encode_with_special("A<END>B<END>", trusting(7, 12)), (Ids{'a', '<', 'e', 'n', 'd', '>', 'b', 259}));
  EXPECT_EQ(t->encode_with_special("A<END>B", trusting(6, 7)), t->encode("A<END>B"));
}

TEST(TokenizerJson, ByteLevelRoundTripsTextsAndInvalidBytes) {
  const Loaded t("tokenizer.json", byte_level_json().dump());
  for (const std::string& text : mixed_texts()) EXPECT_EQ(t->decode(t->encode(text)), text);
}

TEST(TokenizerJson, PiecesDoNotJoinAcrossAnInvalidByte) {
  const Loaded t("tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(t->encode("ab\xff"
                      "c"),
            (Ids{256, 0xff, 'c'}));
}

TEST(TokenizerJson, NamesTheBytesThatItLeavesOut) {
  EXPECT_EQ(Loaded("tokenizer.json", byte_level_json().dump())->left_out(), "");
  EXPECT_EQ(Loaded("tokenizer.json", fallback_json().dump())->left_out(), "");
  nlohmann::json json = byte_level_json();
  for (const int b : {0, 7}) json["model"]["vocab"].erase(symbol_of(b));
  const Loaded t("tokenizer.json", json.dump());
  EXPECT_EQ(t->encode(std::string("a\0b\x07", 4)), (Ids{'a', 'b'}));
  EXPECT_EQ(t->left_out(), "has no token for 2 bytes (0x00 0x07)");
  json = fallback_json();
  json["model"]["byte_fallback"] = false;
  json["model"].erase("unk_token");
  EXPECT_EQ(Loaded("tokenizer.json", json.dump())->left_out(),
            "has tokens for 3 characters, and no token for other characters");
}

TEST(TokenizerJson, CharactersWithoutATokenFallBackToBytes) {
  const Loaded t("tokenizer.json", fallback_json().dump());
  EXPECT_EQ(t->encode("a b"), (Ids{262, 259, 261}));
  EXPECT_EQ(t->encode("\xc3\xa9"), (Ids{259, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(t->encode("\xff"), (Ids{3 + 0xff}));
  EXPECT_EQ(t->decode(t->encode("a b\xc3\xa9")), "a b\xc3\xa9");
  EXPECT_EQ(t->end_of_document(), 2);
  EXPECT_EQ(t->beginning_of_document(), 1);
}

TEST(TokenizerJson, FallbackRoundTripsTextInManyScripts) {
  const Loaded t("tokenizer.json", fallback_json().dump());
  for (const std::string& text : mixed_texts()) {
    if (text.find('\xff') != text.npos || text.find("\x80\x80") != text.npos)
      continue;  // does not round-trip, because its bytes are not UTF-8
    EXPECT_EQ(t->decode(t->encode(text)), text);
  }
}

TEST(TokenizerJson, ConfigurationInTheSameFolderSelectsTheEndOfDocument) {
  const ScratchFolder folder;
  auto json = byte_level_json();
  json["added_tokens"].push_back({{"id", 259}, {"content", "<end>"}, {"special", true}});
  const std::string path = folder.write("tokenizer.json", json.dump());
  EXPECT_EQ(load_tokenizer(path)->end_of_document(), 258);
  folder.write("generation_config.json", R"({"eos_token_id": [259, 258]})");
  EXPECT_EQ(load_tokenizer(path)->end_of_document(), 259);
  folder.write("tokenizer_config.json",
               R"({"eos_token": {"content": "<|endoftext|>"}, "bos_token": "<end>", "add_bos_token": true})");
  EXPECT_EQ(load_tokenizer(path)->end_of_document(), 258);
  EXPECT_EQ(load_tokenizer(path)->beginning_of_document(), 259);
  EXPECT_EQ(load_tokenizer(path, {.end_of_document = "<end>", .pattern = ""})->end_of_document(), 259);
}

TEST(TokenizerJson, EmptyMatchesOfASplitDivideTheText) {
  auto json = fallback_json();
  json["normalizer"] = nullptr;
  json["model"]["vocab"]["ab"] = 263;
  json["model"]["merges"] = nlohmann::json::array({"a b"});
  for (const char* behavior : {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
    json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(?=b)"}}}, {"behavior", behavior}};
    const Loaded t("tokenizer.json", json.dump());
    EXPECT_EQ(t->encode("aab"), (Ids{260, 260, 261})) << behavior;
  }
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "^"}}}, {"content", "b"}};
  json["pre_tokenizer"] = nullptr;
  EXPECT_EQ(Loaded("tokenizer.json", json.dump())->encode("a"), (Ids{261, 260}));
}

TEST(TokenizerJson, TokensAreFoundInWhiteSpaceStrippedByAnotherToken) {
  auto json = byte_level_json();
  json["added_tokens"].push_back({{"id", 259}, {"content", "[A]"}, {"rstrip", true}, {"normalized", false}});
  json["added_tokens"].push_back({{"id", 260}, {"content", "  "}, {"normalized", false}});
  const Loaded t("tokenizer.json", json.dump());
  EXPECT_EQ(t->encode("[A]    b"), (Ids{259, 260, 260, 'b'}));  // like the reference library
  EXPECT_EQ(t->encode("[A]   a"), (Ids{259, 260, ' ', 'a'}));
}

TEST(TokenizerJson, CharactersFallBackOnlyToBytesThatExist) {
  const nlohmann::json bpe = {{"type", "BPE"},
                              {"vocab", {{"a", 0}, {"<0x62>", 1}, {"<unk>", 2}, {"</s>", 3}}},
                              {"merges", nlohmann::json::array()},
                              {"unk_token", "<unk>"},
                              {"byte_fallback", true}};
  const Loaded t("tokenizer.json", nlohmann::json{{"model", bpe}}.dump());
  EXPECT_EQ(t->encode("abca"), (Ids{0, 1, 2, 0}));
  EXPECT_EQ(t->encode("cba"), (Ids{1, 2, 0})) << "the reference library writes an unknown id after bytes";
  const nlohmann::json unigram = {
      {"type", "Unigram"},
      {"vocab", nlohmann::json::parse(R"([["<unk>",0],["a",-1],["<0x62>",-3],["</s>",0]])")},
      {"unk_id", 0},
      {"byte_fallback", true}};
  const Loaded u("tokenizer.json", nlohmann::json{{"model", unigram}}.dump());
  EXPECT_EQ(u->encode("b"), (Ids{2}));
  EXPECT_EQ(u->encode("abcb"), (Ids{1, 0}));
}

TEST(TokenizerJson, BeginningOfDocumentHasNoText) {
  const ScratchFolder folder;
  auto json = byte_level_json();
  json["added_tokens"].push_back({{"id", 259}, {"content", "<s>"}, {"special", false}});
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  const auto t = load_tokenizer(folder.write("tokenizer.json", json.dump()));
  EXPECT_EQ(t->beginning_of_document(), 259);
  EXPECT_EQ(t->bytes_of(259), "");
  EXPECT_EQ(t->encode("<s>"), (Ids{'<', 's', '>'}));
}

TEST(TokenizerJson, TextOfTheEndOfDocumentTokenIsPlainText) {
  auto json = byte_level_json();
  json["added_tokens"][0]["special"] = false;
  const Loaded added("tokenizer.json", json.dump());
  EXPECT_EQ(added->encode("<|endoftext|>").size(), 13u);
  EXPECT_EQ(added->encode_with_special("<|endoftext|>"), (Ids{258}));
  const nlohmann::json end = {{"id", 3}, {"content", "</s>"}, {"special", true}};
  const auto vocab = nlohmann::json::parse(R"([["<unk>",0],["a",-1],["s",-1],["</s>",0]])");
  json = {{"added_tokens", nlohmann::json::array({end})},
          {"model", {{"type", "Unigram"}, {"vocab", vocab}, {"unk_id", 0}}}};
  const Loaded unigram("tokenizer.json", json.dump());
  EXPECT_EQ(unigram->encode("</s>"), (Ids{0, 2, 0}));
  EXPECT_EQ(unigram->encode_with_special("a</s>"), (Ids{1, 3}));
}

TEST(Tiktoken, RanksAreIdsAndSpecialTokensFollow) {
  const Loaded t("x.tiktoken", tiktoken_text(), cl100k);
  EXPECT_EQ(t->encode("abc ab"), (Ids{257, 255 - ' ', 256}));
  EXPECT_EQ(t->encode_with_special("ab<|endoftext|>"), (Ids{256, 258}));
  EXPECT_EQ(t->encode_with_special("ab<|endoftext|>", trusting(0, 2)).size(), 1 + 13u);
  EXPECT_EQ(t->end_of_document(), 258);
  EXPECT_EQ(t->beginning_of_document(), std::nullopt);
  for (const std::string& text : mixed_texts()) EXPECT_EQ(t->decode(t->encode(text)), text);
}

TEST(Tekken, SpecialTokensComeFirst) {
  const Loaded t("tekken.json", tekken_json().dump());
  EXPECT_EQ(t->vocab_size(), 261);
  EXPECT_EQ(t->encode("abc"), (Ids{4 + 256, 4 + 'c'}));
  EXPECT_EQ(t->beginning_of_document(), 1);
  EXPECT_EQ(t->end_of_document(), 2);
  EXPECT_EQ(t->encode_with_special("<s>"), (Ids{1}));
  EXPECT_EQ(t->encode_with_special("<s><s>", trusting(0, 3)), (Ids{1, 4 + '<', 4 + 's', 4 + '>'}));
  for (const std::string& text : mixed_texts()) EXPECT_EQ(t->decode(t->encode(text)), text);
}

TEST(Import, SpecialTokensAreDecodedOnRequest) {
  const Loaded json("tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(json->special_text(258), "<|endoftext|>");
  EXPECT_EQ(json->special_text(256), "");
  EXPECT_EQ(json->decode_with_special(Ids{256, 258, 'a'}), "ab<|endoftext|>a");
  EXPECT_EQ(json->decode(Ids{256, 258, 'a'}), "aba");
  const Loaded fallback("tokenizer.json", fallback_json().dump());
  EXPECT_EQ(fallback->decode_with_special(Ids{1, 262, 259, 261, 2}), "<s> a b</s>");
  EXPECT_EQ(fallback->decode_with_special(Ids{262, 2}), "a</s>") << "the space at the beginning of a text is inserted";
  const Loaded tiktoken("x.tiktoken", tiktoken_text(), cl100k);
  EXPECT_EQ(tiktoken->decode_with_special(Ids{256, 258}), "ab<|endoftext|>");
  const Loaded tekken("tekken.json", tekken_json().dump());
  EXPECT_EQ(tekken->decode_with_special(Ids{1, 4 + 'c', 2}), "<s>c</s>");
  EXPECT_EQ(make_byte_tokenizer()->decode_with_special(Ids{'a', 256}), "a")
      << "the byte tokenizer has no text for its end token";
}

TEST(Import, ContinuationKeepsTheSpaceAfterItsPrompt) {
  const Loaded fallback("tokenizer.json", fallback_json().dump());
  const Ids ids{262, 259, 261};
  EXPECT_EQ(fallback->decode_after("the", ids), " a b");
  EXPECT_EQ(fallback->decode_after("", ids), "a b") << "the space at the beginning of a text is inserted";
  EXPECT_EQ(fallback->decode(ids), "a b");
  EXPECT_EQ(make_byte_tokenizer()->decode_after("the", Ids{' ', 'a', 256}), " a");
}

TEST(Import, SavedFileKeepsTheTokenizer) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> files{{"tokenizer.json", byte_level_json().dump()},
                                                               {"fallback.json", fallback_json().dump()},
                                                               {"x.tiktoken", tiktoken_text()},
                                                               {"tekken.json", tekken_json().dump()}};
  for (const auto& [name, contents] : files) {
    SCOPED_TRACE(name);
    const bool ranks = name == "x.tiktoken";
    const auto original = load_tokenizer(folder.write("from/" + name, contents), ranks ? cl100k : TokenizerChoice());
    const std::string copy = folder.write("to/tokenizer.json", "");
    original->save(copy);
    const auto loaded = load_tokenizer(copy);
    EXPECT_EQ(loaded->fingerprint(), original->fingerprint());
    EXPECT_EQ(loaded->contents().source->bytes, contents);
    EXPECT_EQ(loaded->end_of_document(), original->end_of_document());
    EXPECT_EQ(loaded->beginning_of_document(), original->beginning_of_document());
    for (const std::string& text : mixed_texts()) EXPECT_EQ(loaded->encode(text), original->encode(text));
  }
}

TEST(Import, DamageOfTheCopyIsNamed) {
  const ScratchFolder folder;
  const std::string path = folder / "tokenizer.json";
  load_tokenizer(folder.write("x.tiktoken", tiktoken_text()), cl100k)->save(path);
  const auto damaged = [&](auto&& change) {
    auto json = nlohmann::json::parse(read_file(path));
    change(json);
    const std::string copy = folder.write("copy.json", json.dump());
    const std::string message = message_of(ExitCode::data, [&] { load_tokenizer(copy); });
    expect_contains(message, copy);
    return message;
  };
  expect_contains(damaged([](auto& j) { j.erase("source"); }), "no 'source'");
  expect_contains(damaged([](auto& j) { j["source"]["base64"] = "?"; }), "'source.base64' cannot be decoded");
  expect_contains(damaged([](auto& j) { j["source"]["base64"] = "YQ=="; }), "its digest is");
  expect_contains(damaged([](auto& j) { j["source"]["end_of_document"] = -1; }), "'source.end_of_document' is -1");
  expect_contains(damaged([](auto& j) { j["source"]["end_of_document"] = 1.5; }),
                  "'source.end_of_document' is 1.5, expected an id");
}

TEST(Import, AnotherEndOfDocumentIsAnotherTokenizer) {
  const ScratchFolder folder;
  const std::string path = folder.write("tokenizer.json", byte_level_json().dump());
  EXPECT_NE(load_tokenizer(path, {.end_of_document = "abc", .pattern = ""})->fingerprint(),
            load_tokenizer(path)->fingerprint());
}

TEST(Import, FolderIsReadAsItsTokenizer) {
  const ScratchFolder folder;
  folder.write("only.tiktoken", tiktoken_text());
  const auto ranks = load_tokenizer(folder.path(), cl100k);
  EXPECT_EQ(ranks->vocab_size(), 258 + 20);  // the ids of cl100k's first and last special tokens differ by 19
  folder.write("tokenizer.json", byte_level_json().dump());
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 259);
}

TEST(Import, ThreadsGiveTheSameIds) {
  const Loaded t("tokenizer.json", byte_level_json().dump());
  std::vector<Ids> expected;
  for (const std::string& text : mixed_texts()) expected.push_back(t->encode(text));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        for (size_t i = 0; i < expected.size(); ++i) count += t->encode(mixed_texts()[i]) != expected[i];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Import, PrepareWritesBeginningAndEndOfDocuments) {
  const ScratchFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("in/text.txt", "a b")};
  options.output = folder / "out";
  options.heldout = 0;
  options.tokenizer = folder.write("model/tokenizer.json", fallback_json().dump());
  const PrepareSummary summary = prepare(options);
  EXPECT_EQ(summary.vocab_size, 263);
  EXPECT_EQ(summary.train.tokens, 5);
  const auto tokenizer = load_tokenizer(folder / "out/tokenizer.json");
  const TokenDataset dataset(folder / "out/train.hxd");
  Ids ids(5);
  dataset.read_ids(0, ids);
  EXPECT_EQ(ids, (Ids{1, 262, 259, 261, 2}));
  EXPECT_EQ(tokenizer->decode(ids), "a b");
  EXPECT_TRUE(prepare(options).skipped);
}

TEST(Import, PrepareWarnsOfMarksThatTheTokenizerSpellsAsText) {
  const ScratchFolder folder;
  nlohmann::json json = byte_level_json();
  int id = 259;
  for (const char* text : {"<s>", "</s>", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[/INST]"})
    json["added_tokens"].push_back({{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
  PrepareOptions options;
  options.inputs = {folder.write("in/chat.jsonl", R"({"prompt": "A", "completion": "B"})")};
  options.output = folder / "out";
  options.heldout = 0;
  options.tokenizer = folder.write("model/tokenizer.json", json.dump());
  options.chat_form = "mistral";
  for (const bool again : {false, true}) {
    const PrepareSummary summary = prepare(options);
    EXPECT_EQ(summary.skipped, again);
    ASSERT_EQ(summary.warnings.size(), 1u);
    EXPECT_EQ(summary.warnings.front(),
              options.tokenizer +
                  ": the tokenizer has no token for [INST], so --chat-form mistral spells it as text; choose the form "
                  "of the tokenizer's model, or --chat-form model with its chat template");
  }
}

}  // namespace
}  // namespace hexad::data
