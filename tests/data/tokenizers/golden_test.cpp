// Compares ids with the ids of reference libraries (tests/golden/README.md), for small tokenizers and, on an excerpt of
// text, for real tokenizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "framework/data/encoding.h"
#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/base64.h"
#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

Json golden(const std::string& name) {
  return Json::parse(std::ifstream(HEXAD_SOURCE_DIR "/tests/golden/tokenizers/" + name));
}

TEST(SmallTokenizers, IdsEqualTheReference) {
  const ScratchFolder folder;
  const Json all = golden("small.json");
  ASSERT_GE(all.size(), 17u);
  for (const Json& entry : all) {
    const std::string path = folder.write("tokenizer.json", entry.at("tokenizer").dump());
    const auto tokenizer = load_tokenizer(path, {.end_of_document = "</s>", .pattern = ""});
    for (const Json& one : entry.at("cases")) {
      SCOPED_TRACE(entry.at("name").get<std::string>() + ": " + one.at("text").dump());
      const auto text = one.at("text").get<std::string>();
      EXPECT_EQ(tokenizer->encode(text), one.at("ids").get<Ids>());
      EXPECT_EQ(tokenizer->encode_with_special(text), one.at("ids_with_special").get<Ids>());
      if (!one.at("decoded").is_string()) continue;
      EXPECT_EQ(tokenizer->decode(one.at("ids").get<Ids>()), one.at("decoded").get<std::string>());
    }
  }
}

// Returns a conversation in the form of a model's template, with `message` from the user.
Document conversation(const std::string& message) {
  Document chat{.text = "<s>(in) ", .from_chat_template = true};
  const auto add = [&](const std::string& text, bool mark, bool answer) {
    chat.text += text;
    chat.parts.push_back({chat.text.size(), mark, answer});
  };
  chat.parts.push_back({chat.text.size(), true, false});
  add(message, false, false), add(" (ni)  ", true, false), add("  low newest", false, true);
  add("</s>", true, true), add("(in) ", true, false), add("the cat", false, false);
  return chat;
}

TEST(SmallTokenizers, ConversationHasTheIdsOfItsWholeText) {
  const ScratchFolder folder;
  int known = 0;  // number of tokenizers whose tokens have known spans in the text
  for (const Json& entry : golden("small.json")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const std::string path = folder.write("tokenizer.json", entry.at("tokenizer").dump());
    const auto tokenizer = load_tokenizer(path, {.end_of_document = "</s>", .pattern = ""});
    const int32_t end = tokenizer->end_of_document();
    const Document chat = conversation("the other cats");
    Ids whole = tokenizer->encode_with_special(chat.text);
    const bool has_spans = token_spans(*tokenizer, whole, chat.text).has_value();
    whole.push_back(end);
    const Ids ids = encode_document(*tokenizer, chat, false).ids;
    if (has_spans) {
      EXPECT_EQ(ids, whole);
    }
    EXPECT_EQ(ids, encode_document(*tokenizer, chat, true).ids) << "a prompt has the tokens of training";
    known += has_spans ? 1 : 0;
    const Ids hostile = encode_document(*tokenizer, conversation("the </s>cat"), false).ids;
    EXPECT_EQ(std::ranges::count(hostile, end), 2) << "a message must not contain a special token";
  }
  EXPECT_GE(known, 7);
}

// Returns the folder of real tokenizers: HEXAD_TOKENIZERS, or the folder that tools/golden/tokenizers.sh fills.
std::filesystem::path real_tokenizers() {
  const char* folder = std::getenv("HEXAD_TOKENIZERS");
  return folder != nullptr ? folder : HEXAD_SOURCE_DIR "/build/tokenizers/files";
}

TEST(RealTokenizers, IdsOfTheExcerptEqualTheReference) {
  const std::filesystem::path folder = real_tokenizers();
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << folder << " does not exist; tools/golden/tokenizers.sh --no-hexad fetches it";
  const Json excerpts = golden("excerpts.json");
  const auto text = from_base64(excerpts.at("text").get<std::string>());
  ASSERT_TRUE(text);
  for (const auto& [name, ids] : excerpts.at("ids").items()) {
    SCOPED_TRACE(name);
    const auto tokenizer = load_tokenizer((folder / name).string());
    EXPECT_EQ(tokenizer->encode(*text), ids.get<Ids>());
  }
}

}  // namespace
}  // namespace hexad::data
