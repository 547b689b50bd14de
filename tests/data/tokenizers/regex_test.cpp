#include "framework/data/tokenizers/regex.h"

#include <gtest/gtest.h>

#include "framework/data/tokenizers/regex_dialect.h"
#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text,
                                 RegexDialect dialect = RegexDialect::rust) {
  std::vector<std::string> found;
  Regex(pattern, "file", dialect).for_each_match(text, [&](size_t begin, size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

using Found = std::vector<std::string>;

TEST(Regex, FindsMatchesFromLeftToRight) {
  EXPECT_EQ(matches("\\p{L}+|\\p{N}{1,3}", "ab 12345 \xc3\xa9"), (Found{"ab", "123", "45", "\xc3\xa9"}));
  EXPECT_EQ(matches("x*", "axxb"), (Found{"", "xx", ""})) << "there is no empty match at the end of another match";
  EXPECT_EQ(matches("x*", ""), Found{});
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b "), (Found{"  ", " ", " "}));
  EXPECT_EQ(matches("(?i:'LL)", "we'll"), (Found{"'ll"}));
}

TEST(Regex, MongolianVowelSeparatorIsNotWhiteSpace) {
  EXPECT_EQ(matches("\\s+", "a\xe1\xa0\x8e \xc2\x85\xe2\x80\xa8z"), (Found{" \xc2\x85\xe2\x80\xa8"}));
  EXPECT_EQ(matches("\\S+", "a\xe1\xa0\x8e b"), (Found{"a\xe1\xa0\x8e", "b"}));
  EXPECT_EQ(matches("[^\\s\\p{L}]+", "a\xe1\xa0\x8e."), (Found{"\xe1\xa0\x8e."}));
}

TEST(Regex, MarksBelongToWords) { EXPECT_EQ(matches("\\w+", "e\xcc\x81_1-"), (Found{"e\xcc\x81_1"})); }

TEST(Regex, HyphenAfterClassEscapeIsLiteral) {
  EXPECT_EQ(matches("[\\w-.]+", "a-b./"), (Found{"a-b."}));
  EXPECT_EQ(matches("[\\s-x]+", " -xa"), (Found{" -x"}));
}

TEST(Regex, DollarMatchesOnlyAtTheEndInRust) { EXPECT_EQ(matches("b$", "b\n"), Found{}); }

TEST(Regex, AnchorsMatchAtEachLineInOniguruma) {
  EXPECT_EQ(matches("^a|b$", "a\nab\na", RegexDialect::oniguruma), (Found{"a", "a", "b", "a"}));
}

TEST(Regex, PlusAfterACountRepeatsInOnigurumaAndIsPossessiveInRust) {
  const auto oniguruma = [](std::string_view pattern, std::string_view text) {
    return matches(pattern, text, RegexDialect::oniguruma);
  };
  EXPECT_EQ(matches("\\p{N}{1,3}+", "1234567"), (Found{"123", "456", "7"}));
  EXPECT_EQ(oniguruma("\\p{N}{1,3}+", "1234567"), Found{"1234567"});
  EXPECT_EQ(oniguruma("[ab]{2}+", "abaab"), Found{"abaa"});
  EXPECT_EQ(oniguruma("x(a|b){2}+y", "xabaay"), Found{"xabaay"});
  EXPECT_EQ(oniguruma("\xc3\xa9{2}+", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"), Found{"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"});
  EXPECT_EQ(oniguruma("\\x{20AC}{2}+", "\xe2\x82\xac\xe2\x82\xac"), Found{"\xe2\x82\xac\xe2\x82\xac"});
  EXPECT_EQ(oniguruma("ab{2}?c", "ac"), Found{"ac"});
  EXPECT_EQ(oniguruma("a++|b?+", "aab"), (Found{"aa", "b"}));
}

TEST(Regex, ScriptsDoNotIncludeTheirExtensions) {
  const std::string text = "\xe6\xbc\xa2\xe3\x80\x81";  // an ideograph and an ideographic comma
  for (const RegexDialect dialect : {RegexDialect::rust, RegexDialect::oniguruma}) {
    EXPECT_EQ(matches("\\p{Han}+", text, dialect), Found{"\xe6\xbc\xa2"});
    EXPECT_EQ(matches("[^\\p{Han}]+", text, dialect), Found{"\xe3\x80\x81"});
    EXPECT_EQ(matches("\\P{Han}", text, dialect), Found{"\xe3\x80\x81"});
  }
}

TEST(Regex, WordsAreThoseOfTheDialect) {
  const std::string letter = "\xf0\x9f\x85\xb1",
                    joiner = "\xe2\x80\x8d";  // a letter in a square; the zero-width joiner
  EXPECT_EQ(matches("\\w+", "a" + letter + joiner + "c"), Found{"a" + letter + joiner + "c"});
  EXPECT_EQ(matches("\\w+", "a" + letter + joiner + "c", RegexDialect::oniguruma), (Found{"a" + letter, "c"}));
  EXPECT_EQ(matches("\\bx", "e\xcc\x81x x"), Found{"x"});
  EXPECT_EQ(matches("a\\B.", "ab a "), Found{"ab"});
}

TEST(Regex, VerticalTabIsOneCharacter) { EXPECT_EQ(matches("\\v|[\\v]", "\n\x0b\xc2\x85"), Found{"\x0b"}); }

TEST(Regex, WrongPatternsAreDataErrorsThatNameThePlace) {
  const auto message = [](std::string_view pattern) {
    return message_of(ExitCode::data, [&] { Regex(pattern, "t.json: 'pre_tokenizer'", RegexDialect::oniguruma); });
  };
  expect_contains(message("(ab"), "t.json: 'pre_tokenizer': the pattern \"(ab\" is invalid at byte 3");
  expect_contains(message("[\\p{L}&&[^a]]"), "the set operation && in a class, which is not supported");
  expect_contains(message("[a[b]]"), "a class in a class");
  expect_contains(message("[[:alpha:]]"), "the named class [:alpha:], which is not supported; expected characters");
  expect_contains(message("(?m)a."), "(?m), which is not supported");
  expect_contains(message("(*UTF)a"), "(*, which is not supported");
  expect_contains(message("a{,2}"), "the count {,2} without a minimum, which is not supported; expected {0,2}");
  expect_contains(message("(?R)"), "(?R, which is not supported");
  expect_contains(message("\\h"), "\\h, which is not supported");
  expect_contains(message("\xff"), "is not UTF-8");
  expect_contains(message(std::string(100000, 'a')), "the pattern has 100000 bytes");
}

TEST(Regex, ClassesKeepTheirBrackets) {
  EXPECT_EQ(pcre_pattern("[]a]|[^]]", "file", RegexDialect::rust), "[]a]|[^]]");
  EXPECT_EQ(pcre_pattern("\\[\\]", "file", RegexDialect::rust), "\\[\\]");
  EXPECT_EQ(matches("[!\"#\\[\\\\\\]^_`{|}~]+", "a[\\]^b"), (Found{"[\\]^"}));
}

TEST(Regex, ExplosiveMatchesEndAtTheLimit) {
  std::string text(61, 'a');
  text.back() = 'b';
  expect_contains(message_of(ExitCode::data, [&] { matches("(a+)+$|(a|aa)+$", text); }), "cannot be matched");
}

TEST(Regex, ManySlowMatchesEndAtTheLimitOfTheText) {
  const std::string pattern = "(?:x?){19}x{19}y|x";  // in a long run of x, each match takes milliseconds
  EXPECT_EQ(matches(pattern, std::string(16, 'x')).size(), 16u);
  expect_contains(message_of(ExitCode::data, [&] { matches(pattern, std::string(80, 'x')); }),
                  "cannot be matched: more than 16 matches in 80 bytes of text take more than 20000 steps each");
  std::string spaces;
  for (int i = 0; i < 60; ++i) spaces += std::string(30'000, ' ') + "b";
  EXPECT_EQ(matches("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|b", spaces).size(), 180u)
      << "a longer text may have more slow matches";
}

TEST(Regex, LongRunsAreMatched) {
  const std::string letters(1 << 20, 'a'), spaces(1 << 18, ' ');
  EXPECT_EQ(matches("\\p{L}+|\\s+(?!\\S)|\\s+", letters + spaces + "b").size(), 4u);
}

}  // namespace
}  // namespace hexad::data
