// Small hand-made tokenizer files in the formats of other programs.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/data/tokenizers/base64.h"
#include "framework/data/tokenizers/byte_level.h"
#include "tests/data/data_folder.h"

namespace hexad::data {

/// Returns the character that represents a byte in byte-level vocabularies, in UTF-8.
inline std::string symbol_of(int byte) {
  for (int c = 33; c < 512; ++c) {
    std::string text = c < 128 ? std::string(1, static_cast<char>(c))
                               : std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    if (bytes_of_symbols(text) == std::string(1, static_cast<char>(byte))) return text;
  }
  return "";
}

/// Returns a byte-level tokenizer.json: ids 0 to 255 are the bytes, 256 "ab", 257 "abc", 258 <|endoftext|>.
inline nlohmann::json byte_level_json() {
  nlohmann::json vocab;
  for (int b = 0; b < 256; ++b) vocab[symbol_of(b)] = b;
  vocab["ab"] = 256, vocab["abc"] = 257;
  return {{"version", "1.0"},
          {"added_tokens", {{{"id", 258}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array({"a b", "ab c"})}}}};
}

/// Returns a SentencePiece-like tokenizer.json with byte fallback: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then
/// U+2581, a, b and "U+2581 a".
inline nlohmann::json fallback_json() {
  const std::string space = "\xe2\x96\x81";
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2},       {space, 259},
                          {"a", 260},   {"b", 261}, {space + "a", 262}};
  for (int b = 0; b < 256; ++b) vocab[fallback_name(static_cast<unsigned char>(b))] = 3 + b;
  const auto special = [](int id, const char* name) -> nlohmann::json {
    return {{"id", id}, {"content", name}, {"special", true}, {"normalized", false}};
  };
  const nlohmann::json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}};
  const nlohmann::json back = {{"type", "Replace"}, {"pattern", {{"String", space}}}, {"content", " "}};
  return {
      {"added_tokens", {special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", space}}, spaces}}}},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens",
         {{"<s>", {{"id", "<s>"}, {"ids", nlohmann::json::array({1})}, {"tokens", nlohmann::json::array({"<s>"})}}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {back,
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", nlohmann::json::array({space + " a"})}}}};
}

/// Returns a .tiktoken file: the bytes in reverse order, then "ab" and "abc".
inline std::string tiktoken_text() {
  std::string text;
  for (int b = 0; b < 256; ++b)
    text += to_base64(std::string(1, static_cast<char>(255 - b))) + " " + std::to_string(b) + "\n";
  return text + to_base64("ab") + " 256\n" + to_base64("abc") + " 257\n";
}

/// Returns a tekken.json with 4 special tokens, the bytes and "ab". It also lists "abc", which is beyond its
/// vocabulary.
inline nlohmann::json tekken_json() {
  nlohmann::json vocab = nlohmann::json::array();
  const auto add = [&](const std::string& token) {
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", to_base64(token)}, {"token_str", nullptr}});
  };
  for (int b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
  add("ab"), add("abc");
  return {{"config",
           {{"pattern", "\\w+|\\W"},
            {"num_vocab_tokens", 258},
            {"default_vocab_size", 261},
            {"default_num_special_tokens", 4},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

/// Returns test texts: several scripts, invalid UTF-8, special tokens, a long text and an empty text.
inline std::vector<std::string> mixed_texts() {
  return {"",
          "abc ab a",
          "caf\xc3\xa9 \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xe6\x96\x87\xe5\xad\x97 \xf0\x9f\x98\x80",
          "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87\n\t  x\r\n",
          "\xff\xfe"
          "ab\xc3(\xe2\x82 \xf0\x9f\x98",
          std::string("\0a\0", 3),
          std::string(5000, 'a') + std::string(5000, ' ') + std::string(300, '\x80'),
          "<|endoftext|></s><s>"};
}

}  // namespace hexad::data
