// JSON parser for conversations.
#include "framework/data/chat_json.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace hexad::data {

using base::cat;
namespace {

// Parses `text`. Returns its JSON in one line, or the problem if it is not JSON.
std::string parsed(std::string_view text) {
  ChatJson json = 1;
  const std::string problem = parse_chat_json(text, json);
  EXPECT_EQ(json.is_null(), !problem.empty() || text == "null") << text;
  return problem.empty() ? json.dump() : problem;
}

TEST(ChatJson, ValuesAndTheOrderOfKeysAreKept) {
  for (const std::string_view text :
       {R"({"z":[1,-2,2.5,true,null,"é\n"],"a":{"y":{},"b":[[],[{}]]},"":18446744073709551615})", "[]", "{}", "null",
        "\"a\"", "-7", "1e-07"})
    EXPECT_EQ(parsed(text), text);
}

TEST(ChatJson, RepeatedKeysHaveTheFirstPlaceAndTheLastValue) {
  EXPECT_EQ(parsed(R"({"a": 1, "b": 2, "a": {"c": 3, "c": [4]}, "b": 5, "d": 6, "a": 7})"), R"({"a":7,"b":5,"d":6})");
  EXPECT_EQ(parsed(R"([{"a": 1, "a": {"c": 3, "c": [4]}}])"), R"([{"a":{"c":[4]}}])");
}

TEST(ChatJson, ProblemsHaveTheTextsOfTheParser) {
  for (const std::string_view text : {"", "{", "[1,]", "{\"a\" 1}", "{} {}", "\"\xff\"", "1e999"}) {
    std::string wanted;
    try {
      const ChatJson json = ChatJson::parse(text);
      ADD_FAILURE() << json.dump() << " is not JSON";
    } catch (const ChatJson::exception& error) {
      wanted = error.what();
    }
    EXPECT_EQ(parsed(text), wanted);
  }
}

// Comparing each key with all earlier keys would take minutes.
TEST(ChatJson, ObjectsMayHaveManyKeys) {
  constexpr int count = 300'000;
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += cat(i == 0 ? "" : ", ", "\"", i, "\": 1");
  ChatJson json;
  EXPECT_EQ(parse_chat_json(text + "}", json), "");
  EXPECT_EQ(json.size(), static_cast<size_t>(count));
}

TEST(ChatJson, MayBeDeeplyNested) {
  constexpr size_t depth = 200'000;
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  ChatJson json;
  EXPECT_EQ(parse_chat_json(deep, json), "");
  EXPECT_TRUE(json.is_array());
  EXPECT_EQ(parse_chat_json(cat("{\"a\": ", deep, ", \"b\": 1, \"c\": ", deep, ", \"d\": 2, \"a\": 3}"), json), "");
  EXPECT_EQ(json.size(), 4u);
  EXPECT_EQ(json["a"], 3);
  EXPECT_NE(parse_chat_json(cat("{\"a\": ", deep, ", \"b\": ", deep.substr(1)), json), "");
  EXPECT_TRUE(json.is_null());
}

}  // namespace
}  // namespace hexad::data
