#include "framework/data/tokenizers/regex.h"

#include <gtest/gtest.h>

#include "framework/data/tokenizers/regex_dialect.h"
#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> found;
  Regex(pattern, "file").for_each_match(text, [&](size_t begin, size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

using Found = std::vector<std::string>;

TEST(Regex, FindsMatchesFromLeftToRightAndSkipsEmptyOnes) {
  EXPECT_EQ(matches("\\p{L}+|\\p{N}{1,3}", "ab 12345 \xc3\xa9"), (Found{"ab", "123", "45", "\xc3\xa9"}));
  EXPECT_EQ(matches("x*", "axxb"), (Found{"xx"}));
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b "), (Found{"  ", " ", " "}));
  EXPECT_EQ(matches("(?i:'LL)", "we'll"), (Found{"'ll"}));
}

TEST(Regex, MongolianVowelSeparatorIsNotWhiteSpace) {
  EXPECT_EQ(matches("\\s+", "a\xe1\xa0\x8e \xc2\x85\xe2\x80\xa8z"), (Found{" \xc2\x85\xe2\x80\xa8"}));
  EXPECT_EQ(matches("\\S+", "a\xe1\xa0\x8e b"), (Found{"a\xe1\xa0\x8e", "b"}));
  EXPECT_EQ(matches("[^\\s\\p{L}]+", "a\xe1\xa0\x8e."), (Found{"\xe1\xa0\x8e."}));
}

TEST(Regex, MarksBelongToWords) { EXPECT_EQ(matches("\\w+", "e\xcc\x81_1-"), (Found{"e\xcc\x81_1"})); }

TEST(Regex, AHyphenAfterAClassEscapeIsAHyphen) {
  EXPECT_EQ(matches("[\\w-.]+", "a-b./"), (Found{"a-b."}));
  EXPECT_EQ(matches("[\\s-x]+", " -xa"), (Found{" -x"}));
}

TEST(Regex, DollarMatchesOnlyAtTheEnd) { EXPECT_EQ(matches("b$", "b\n"), Found{}); }

TEST(Regex, WrongPatternsAreDataErrorsThatNameThePlace) {
  const auto message = [](std::string_view pattern) {
    return message_of(ExitCode::data, [&] { Regex(pattern, "t.json: 'pre_tokenizer'"); });
  };
  expect_contains(message("(ab"), "t.json: 'pre_tokenizer': the pattern \"(ab\" is wrong at byte 3");
  expect_contains(message("[\\p{L}&&[^a]]"), "which is not supported");
  expect_contains(message("[a[b]]"), "a class in a class");
  expect_contains(message("[[:alpha:]]"), "a named class");
  expect_contains(message("\\h"), "\\h, which is not supported");
  expect_contains(message("\xff"), "is not UTF-8");
  expect_contains(message(std::string(100000, 'a')), "the pattern has 100000 bytes");
}

TEST(Regex, ClassesKeepTheirBrackets) {
  EXPECT_EQ(pcre_pattern("[]a]|[^]]", "file"), "[]a]|[^]]");
  EXPECT_EQ(pcre_pattern("\\[\\]", "file"), "\\[\\]");
  EXPECT_EQ(matches("[!\"#\\[\\\\\\]^_`{|}~]+", "a[\\]^b"), (Found{"[\\]^"}));
}

TEST(Regex, ExplosiveMatchesEndAtTheLimit) {
  const std::string text = std::string(60, 'a') + "b";
  expect_contains(message_of(ExitCode::data, [&] { matches("(a+)+$|(a|aa)+$", text); }), "cannot be matched");
}

TEST(Regex, LongRunsAreMatched) {
  const std::string letters(1 << 20, 'a'), spaces(1 << 18, ' ');
  EXPECT_EQ(matches("\\p{L}+|\\s+(?!\\S)|\\s+", letters + spaces + "b").size(), 4u);
}

}  // namespace
}  // namespace hexad::data
