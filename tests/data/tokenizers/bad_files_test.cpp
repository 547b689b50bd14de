// Tokenizer files of other programs that are damaged or not supported. Errors name the file and the problem.
#include <gtest/gtest.h>

#include "framework/data/tokenizer.h"
#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

using Json = nlohmann::json;

// Returns the error message of loading a file with the given name and contents.
std::string message(const std::string& name, const std::string& contents, ExitCode code = ExitCode::data,
                    const TokenizerChoice& choice = {}) {
  const ScratchFolder folder;
  const std::string path = folder.write(name, contents);
  const std::string text = message_of(code, [&] { load_tokenizer(path, choice); });
  expect_contains(text, path);
  return text;
}

// Returns the error message of loading a byte-level tokenizer.json that `damage` has changed.
template <class F>
std::string damaged(F&& damage) {
  Json json = byte_level_json();
  damage(json);
  return message("tokenizer.json", json.dump());
}
template <class F>
std::string damaged_fallback(F&& damage) {
  Json json = fallback_json();
  damage(json);
  return message("tokenizer.json", json.dump());
}

TEST(BadTokenizerJson, VocabularyProblemsAreNamed) {
  expect_contains(damaged([](Json& j) { j["model"].erase("vocab"); }), "no 'model.vocab'");
  expect_contains(damaged([](Json& j) { j["model"]["vocab"] = 7; }), "'model.vocab' is a number, expected an object");
  expect_contains(damaged([](Json& j) { j["model"]["vocab"]["x y"] = 5; }), "have the same id, 5");
  expect_contains(damaged([](Json& j) { j["model"]["vocab"]["x y"] = -1; }),
                  "token 'x y' has the id -1, expected a whole number from 0 to");
  expect_contains(damaged([](Json& j) { j["model"]["vocab"]["x y"] = 4000000000; }), "has the id 4000000000");
  expect_contains(damaged([](Json& j) { j["model"]["vocab"]["x y"] = "1"; }), "token 'x y' has an id that is a string");
}

TEST(BadTokenizerJson, BadMergesAreNamed) {
  expect_contains(damaged([](Json& j) { j["model"].erase("merges"); }), "no 'model.merges'");
  expect_contains(damaged([](Json& j) { j["model"]["merges"][1] = "ab nothere"; }),
                  "'model.merges[1]': token 'nothere' is not in the vocabulary");
  expect_contains(damaged([](Json& j) { j["model"]["merges"][1] = "abc abc"; }),
                  "token 'abcabc' is not in the vocabulary");
  expect_contains(damaged([](Json& j) { j["model"]["merges"][0] = "ab"; }),
                  "'model.merges[0]' is 'ab', expected two tokens");
  expect_contains(damaged([](Json& j) { j["model"]["merges"][0] = {"a", "b", "c"}; }), "has 3 parts, expected 2");
  expect_contains(damaged([](Json& j) { j["model"]["merges"][0] = 5; }),
                  "'model.merges[0]' is a number, expected a string");
}

TEST(BadTokenizerJson, MergeWithAnEmptyPartIsRefused) {
  const std::string text = damaged([](Json& j) {
    j["model"]["vocab"][""] = 300;
    j["model"]["merges"][0] = {"", "a"};
  });
  expect_contains(text, "'model.merges[0]' has an empty part");
}

TEST(BadTokenizerJson, AddedTokensThatContradictTheVocabularyAreNamed) {
  expect_contains(damaged([](Json& j) { j["added_tokens"][0]["id"] = 5; }), "'added_tokens[0]': tokens");
  expect_contains(damaged([](Json& j) { j["added_tokens"][0]["id"] = -5; }), "'added_tokens[0].id' is -5, expected");
  expect_contains(damaged([](Json& j) { j["added_tokens"][0]["content"] = ""; }),
                  "'added_tokens[0].content' is empty, expected the text of the token");
  expect_contains(damaged([](Json& j) { j["added_tokens"] = "x"; }), "'added_tokens' is a string, expected a list");
}

TEST(BadTokenizerJson, KindsThatAreNotSupportedAreNamed) {
  expect_contains(damaged([](Json& j) { j["model"]["type"] = "WordPiece"; }),
                  "tokenizer not supported: 'model' is of type 'WordPiece', expected BPE");
  expect_contains(damaged([](Json& j) {
                    j["normalizer"] = {{"type", "Precompiled"}};
                  }),
                  "tokenizer not supported: 'normalizer' is of type 'Precompiled'");
  expect_contains(damaged([](Json& j) {
                    j["pre_tokenizer"] = {{"type", "Other"}};
                  }),
                  "tokenizer not supported: 'pre_tokenizer' is of type 'Other'");
  expect_contains(damaged([](Json& j) {
                    j["decoder"] = {{"type", "WordPiece"}};
                  }),
                  "tokenizer not supported: 'decoder' is of type 'WordPiece'");
  expect_contains(damaged([](Json& j) {
                    j["post_processor"] = {{"type", "X"}};
                  }),
                  "tokenizer not supported: 'post_processor' is of type 'X'");
  expect_contains(damaged([](Json& j) { j["model"]["dropout"] = 0.1; }),
                  "tokenizer not supported: 'model.dropout' is 0.1, expected none");
  expect_contains(damaged([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
                  "tokenizer not supported: 'model.end_of_word_suffix' is '</w>'");
  expect_contains(damaged([](Json& j) { j["pre_tokenizer"] = Json::object(); }), "no 'pre_tokenizer.type'");
}

// GLM-4 begins texts with two special tokens.
TEST(BadTokenizerJson, SecondTokenOnOneSideIsNotSupported) {
  const auto token = [](const char* id) -> Json { return {{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
  expect_contains(
      damaged_fallback([&](Json& j) {
        j["post_processor"]["single"].insert(j["post_processor"]["single"].begin() + 1, token("<s>"));
      }),
      "tokenizer not supported: 'post_processor.special_tokens.<s>.ids[0]' is a second token on one side of "
      "the text, expected at most one");
}

TEST(BadTokenizerJson, RegularExpressionOfADecoderIsNotSupported) {
  expect_contains(damaged_fallback([](Json& j) {
                    j["decoder"]["decoders"][0]["pattern"] = {{"Regex", "a+"}};
                  }),
                  "tokenizer not supported: 'decoder.decoders[0].pattern.Regex' is a regular expression, expected a "
                  "pattern of type String");
}

TEST(BadTokenizerJson, PatternsAndNestingAreChecked) {
  const auto split = [](const std::string& regex) {
    return damaged([&](Json& j) {
      j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
    });
  };
  expect_contains(split("(a"), "'pre_tokenizer.pattern.Regex': the pattern \"(a\" is invalid");
  expect_contains(split(""), "'pre_tokenizer.pattern.Regex' is empty");
  expect_contains(damaged([](Json& j) {
                    Json nested = {{"type", "NFC"}};
                    for (int i = 0; i < 50; ++i)
                      nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
                    j["normalizer"] = nested;
                  }),
                  "is nested more than 8 levels deep");
}

TEST(BadTokenizerJson, TemplatesAndTheUnknownTokenAreChecked) {
  expect_contains(damaged_fallback([](Json& j) { j["post_processor"]["special_tokens"] = Json::object(); }),
                  "no 'post_processor.special_tokens.<s>'");
  expect_contains(damaged_fallback([](Json& j) {
                    j["post_processor"]["special_tokens"]["<s>"]["ids"] = Json::array({1, 2});
                  }),
                  "has 2 ids, expected 1");
  expect_contains(
      damaged_fallback([](Json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = Json::array({9999}); }),
      "special id 9999, expected below 263");
  expect_contains(damaged_fallback([](Json& j) { j["model"]["unk_token"] = "nothing"; }),
                  "'model.unk_token': token 'nothing' is not in the vocabulary");
}

TEST(BadTokenizerJson, UnigramVocabulariesAreChecked) {
  const auto unigram = [](const char* vocab, int unknown) {
    return message("tokenizer.json",
                   Json{{"model", {{"type", "Unigram"}, {"vocab", Json::parse(vocab)}, {"unk_id", unknown}}}}.dump());
  };
  expect_contains(unigram(R"([["<unk>", 0], ["a", "x"]])", 0), "'model.vocab[1][1]' is a string, expected a number");
  expect_contains(unigram(R"([["<unk>", 0], ["", -1]])", 0), "'model.vocab[1]' is an empty token");
  expect_contains(unigram(R"([["<unk>", 0], ["a", -1], ["a", -2]])", 0), "token 'a' has two ids, 1 and 2");
  expect_contains(unigram(R"([["<unk>", 0], ["a", -1]])", 2),
                  "'model.unk_id' is 2, expected a whole number from 0 to 1");
  expect_contains(unigram("[]", 0), "has 0 tokens");
}

TEST(BadTokenizerJson, TruncatedFilesAreDamaged) {
  const std::string whole = byte_level_json().dump();
  for (const size_t size : {size_t{1}, whole.size() / 2, whole.size() - 1})
    expect_contains(message("tokenizer.json", whole.substr(0, size)), "damaged tokenizer: not JSON");
}

TEST(BadTokenizerJson, MissingEndOfDocumentIsRefused) {
  Json json = byte_level_json();
  json["added_tokens"] = Json::array();
  expect_contains(message("tokenizer.json", json.dump()), "no token ends documents");
  expect_contains(message("tokenizer.json", json.dump(), ExitCode::usage, {.end_of_document = "<end>", .pattern = ""}),
                  "'<end>' is not a token of");
}

TEST(BadTiktoken, LinesAreChecked) {
  const auto with = [](const std::string& line) { return message("x.tiktoken", tiktoken_text() + line); };
  const TokenizerChoice cl100k{.end_of_document = "", .pattern = "cl100k"};
  expect_contains(with("!!!! 258\n"), ":259: damaged tokenizer: '!!!! 258', expected base64, a space and a rank");
  expect_contains(with("YQ==\n"), ":259: damaged tokenizer: 'YQ==', expected base64, a space and a rank");
  expect_contains(with("YWJjZA== -1\n"), ":259: damaged tokenizer");
  expect_contains(with("YWJjZA== 99999999999\n"), ":259: damaged tokenizer");
  expect_contains(with("YWJjZA== 257\n"), ":259: damaged tokenizer: a second token of rank 257");
  expect_contains(with(""),
                  "has 258 tokens, so its pattern is not known; name the pattern with --tokenizer-pattern: gpt2, ");
  expect_contains(message("x.tiktoken", tiktoken_text() + "YWI= 258\n", ExitCode::data, cl100k), "have the same token");
  expect_contains(message("x.tiktoken", "YQ== 0\n", ExitCode::data, cl100k), "no token for the byte 0");
  expect_contains(
      message("x.tiktoken", tiktoken_text() + to_base64(std::string(2000, 'a')) + " 258\n", ExitCode::data, cl100k),
      "the token of rank 258 has 2000 bytes, expected at most 1024");
  expect_contains(message("x.tiktoken", tiktoken_text(), ExitCode::usage, {.end_of_document = "", .pattern = "x"}),
                  "pattern 'x', expected one of gpt2, ");
}

TEST(BadTokenizerJson, MissingByteIsRefusedWhereTheUnknownIdWouldDiffer) {
  for (const char* key : {"fuse_unk", "byte_fallback"}) {
    expect_contains(
        damaged([&](Json& j) {
          j["model"]["vocab"].erase(symbol_of(200));
          j["model"]["unk_token"] = "ab";
          j["model"][key] = true;
        }),
        std::string("not supported: 'model.vocab' lacks a token for the byte 200, expected tokens for all 256 bytes, "
                    "because the tokenizer uses ByteLevel and ") +
            key);
  }
}

TEST(BadTokenizerJson, PatternOptionIsRefused) {
  expect_contains(message("tokenizer.json", byte_level_json().dump(), ExitCode::usage,
                          {.end_of_document = "", .pattern = "cl100k"}),
                  "is of kind huggingface, but --tokenizer-pattern ('cl100k') is only for .tiktoken files");
}

TEST(BadTekken, FieldsAreChecked) {
  const auto damage = [](auto&& change) {
    Json json = tekken_json();
    change(json);
    return message("tekken.json", json.dump());
  };
  expect_contains(damage([](Json& j) { j["config"].erase("pattern"); }), "no 'config.pattern'");
  expect_contains(damage([](Json& j) { j["config"]["pattern"] = "["; }),
                  "'config.pattern': the pattern \"[\" is invalid");
  expect_contains(damage([](Json& j) { j["config"]["default_vocab_size"] = 1000; }),
                  "'vocab' has 258 tokens, expected at least");
  expect_contains(damage([](Json& j) { j["config"]["default_num_special_tokens"] = 0; }),
                  "'config.default_num_special_tokens' is 0, expected a whole number from 1 to 5");
  expect_contains(damage([](Json& j) { j["vocab"][3]["token_bytes"] = "?"; }),
                  "'vocab[3].token_bytes' is empty or cannot be decoded");
  expect_contains(damage([](Json& j) { j["vocab"][3]["rank"] = 2; }),
                  "'vocab[3]' has rank 2, which an earlier token has");
  expect_contains(damage([](Json& j) {
                    j["special_tokens"] = {{{"rank", 1}, {"token_str", "<s>"}}, {{"rank", 1}, {"token_str", "</s>"}}};
                  }),
                  "'special_tokens[1]' has rank 1, which an earlier token has; expected distinct ranks");
  expect_contains(damage([](Json& j) {
                    j["special_tokens"] = {{{"rank", 1}, {"token_str", "<s>"}}, {{"rank", 2}, {"token_str", ""}}};
                  }),
                  "'special_tokens[1].token_str' is empty, expected the text of the token");
  expect_contains(damage([](Json& j) { j["vocab"][256]["token_bytes"] = "YQ=="; }),
                  "ranks 97 and 256 have the same token");
}

TEST(BadSentencePiece, DamagedModelsAreRefused) {
  expect_contains(message("tokenizer.model", "\n\x05gar"), "damaged SentencePiece model");
  expect_contains(message("tokenizer.model", std::string("\n").append(1000, '\xff')), "damaged SentencePiece model");
}

TEST(BadFolders, FolderIsNamed) {
  const ScratchFolder folder;
  expect_contains(message_of(ExitCode::data, [&] { load_tokenizer(folder.path()); }), ": has no tokenizer, expected");
  folder.write("a.tiktoken", tiktoken_text()), folder.write("b.model", "x");
  expect_contains(message_of(ExitCode::data, [&] { load_tokenizer(folder.path()); }), ": has 2 tokenizers, ");
}

TEST(BadConfigs, FileAndKeyAreNamed) {
  const ScratchFolder folder;
  const std::string path = folder.write("tokenizer.json", byte_level_json().dump());
  const auto beside = [&](const std::string& name, const std::string& contents) {
    const std::string config = folder.write(name, contents);
    const std::string text = message_of(ExitCode::data, [&] { load_tokenizer(path); });
    expect_contains(text, config);
    std::filesystem::remove(config);
    return text;
  };
  expect_contains(beside("tokenizer_config.json", "["), "is not JSON, expected a JSON object");
  expect_contains(beside("tokenizer_config.json", R"({"eos_token": "<nothing>"})"), "'eos_token' is '<nothing>'");
  expect_contains(beside("tokenizer_config.json", R"({"eos_token": 7})"), "'eos_token' is a number, expected a string");
  expect_contains(beside("generation_config.json", R"({"eos_token_id": 5000})"), "'eos_token_id' is 5000, expected");
  expect_contains(beside("generation_config.json", R"({"eos_token_id": []})"), "has 0 elements");
}

}  // namespace
}  // namespace hexad::data
