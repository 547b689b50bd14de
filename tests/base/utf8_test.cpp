// Replacement of invalid bytes by U+FFFD, in whole texts and in pieces.
#include "framework/base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace hexad::base {
namespace {

// The expected results equal the results of Python's `bytes.decode("utf-8", "replace")`.
TEST(Utf8, EachInvalidPartBecomesOneReplacement) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "café € 😀"},
      {"a\xff\xfe"
       "b",
       "a��b"},
      {"\xc3", "�"},      // truncated
      {"\xe2\x82", "�"},  // truncated: one replacement
      {"\xf0\x9f\x98"
       "x",
       "�x"},                        // truncated, then text
      {"\x80\x80", "��"},            // no valid start
      {"\xc0\xaf", "��"},            // overlong
      {"\xe0\x80\x80", "���"},       // overlong
      {"\xed\xa0\x80", "���"},       // a surrogate
      {"\xf4\x90\x80\x80", "����"},  // above U+10FFFF
      {"\xf5\x80", "��"},            // not a lead byte
      {"\xe2\xe2\x82\xac", "�€"},    // a lead byte, then a character
      {std::string("a\0b", 3), std::string("a\0b", 3)},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(valid_utf8(bytes), text);
}

TEST(Utf8, CharactersAreCodePoints) {
  EXPECT_EQ(utf8_characters(""), 0u);
  EXPECT_EQ(utf8_characters("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), 8u);
}

TEST(Utf8, LengthCountsTheFirstCharacter) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("ab"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa9x"), 2u);
  EXPECT_EQ(utf8_length("\xe2\x82\xac"), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80"), 4u);
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"})
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
}

TEST(Utf8Pieces, CharacterIsReturnedWhenItIsComplete) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.add("a\xf0\x9f"), "a");
  EXPECT_EQ(pieces.add("\x98"), "");
  EXPECT_EQ(pieces.add("\x80"
                       "b"),
            "😀b");
  EXPECT_EQ(pieces.add("\xe2\x82"), "");
  EXPECT_EQ(pieces.add("x"), "�x");    // x does not continue the pending bytes
  EXPECT_EQ(pieces.add("\xff"), "�");  // never a valid byte
  EXPECT_EQ(pieces.add("\xc3"), "");
  EXPECT_EQ(pieces.finish(), "�");
  EXPECT_EQ(pieces.finish(), "");
}

TEST(Utf8Pieces, RandomPiecesGiveTheTextOfTheWhole) {
  std::mt19937 random(26);
  const std::string bytes = "a\x80\xc3\xa9\xe2\x82\xac\xed\xa0\xf0\x9f\x98\x80\xf4\x90\xff";
  for (int i = 0; i < 2000; ++i) {
    std::string whole, text;
    Utf8Pieces pieces;
    while (whole.size() < 40) {
      std::string piece;
      for (size_t n = random() % 5; n > 0; --n) piece += bytes[random() % bytes.size()];
      text += pieces.add(piece);
      whole += piece;
    }
    text += pieces.finish();
    EXPECT_EQ(text, valid_utf8(whole));
    EXPECT_EQ(valid_utf8(text), text);
  }
}

}  // namespace
}  // namespace hexad::base
