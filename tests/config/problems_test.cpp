// Messages about wrong keys and values (RecipeProblems). They contain the place (file:line or the override), the key,
// the value if the key is legal, and the expected value. Some also suggest the likely key or the nearest legal values.
#include "framework/config/problems.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/config/recipe_error.h"
#include "framework/config/words.h"
#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

/// Returns the message for `line` as the second line of an otherwise legal recipe.
std::string second_line(const std::string& line) { return refusal_of(minimal + line + "\n"); }
/// Returns the message for `line` inside a `model:` section that sets hidden.
std::string in_model(const std::string& line) { return refusal_of("model:\n  hidden: 64\n  " + line + "\n"); }

TEST(RecipeProblems, UnknownKeysAreNamedWithTheLikelyKey) {
  EXPECT_EQ(in_model("hiden: 64"),
            "r.yaml:3: model.hiden is not a key; did you mean hidden?; keys of model: hidden, layers, dropout, "
            "tied, moe");
  EXPECT_EQ(
      second_line("colour: red"),
      "r.yaml:2: colour is not a key; keys at the top level: name, model, etp, note, resume, betas, steps, sources");
}

TEST(RecipeProblems, ShortKeysAreSimilarOnlyIfTheyBeginAlike) {
  const std::vector<std::string_view> axes{"pp", "tp", "cp"}, rates{"B1", "B2"};
  EXPECT_EQ(closest("dp", axes), "");
  EXPECT_EQ(closest("TP", axes), "tp");
  EXPECT_EQ(closest("tp1", axes), "tp");
  EXPECT_EQ(closest("B4", rates), "B1");
  EXPECT_EQ(closest("", axes), "");
}

TEST(RecipeProblems, KeyInTheWrongSectionIsFound) {
  EXPECT_EQ(in_model("experts: 8"),
            "r.yaml:3: model.experts is not a key; did you mean model.moe.experts?; keys of model: hidden, "
            "layers, dropout, tied, moe");
}

TEST(RecipeProblems, WrongTypesAreNamedWithTheExpectedType) {
  EXPECT_EQ(in_model("layers: many"), "r.yaml:3: model.layers (many) must be an integer");
  EXPECT_EQ(in_model("layers: [1]"), "r.yaml:3: model.layers (a list) must be an integer");
  EXPECT_EQ(in_model("layers: {a: 1}"), "r.yaml:3: model.layers (a section) must be an integer");
  EXPECT_EQ(in_model("layers:"), "r.yaml:3: model.layers (nothing) must be an integer");
  EXPECT_EQ(in_model("layers: \"4\""), "r.yaml:3: model.layers (\"4\") must be an integer; remove the quotes");
  EXPECT_EQ(in_model("dropout: little"), "r.yaml:3: model.dropout (little) must be a number");
  EXPECT_EQ(in_model("moe: 8"), "r.yaml:3: model.moe (8) must be a section, with one key per line");
  EXPECT_EQ(second_line("betas: 0.9"), "r.yaml:2: betas (0.9) must be a list; write [0.9]");
  EXPECT_EQ(second_line("sources: a.bin"), "r.yaml:2: sources (a.bin) must be a list");
  EXPECT_EQ(second_line("name:"), "r.yaml:2: name (nothing) must be a text; write \"\" for an empty text");
  EXPECT_EQ(refusal_of(minimal, {"name="}),
            "command line: name=: name (nothing) must be a text; write '\"\"' for an empty text");
}

TEST(RecipeProblems, NumbersInOtherNotationsAreRefusedWithTheLegalNotation) {
  EXPECT_EQ(in_model("layers: 1e3"), "r.yaml:3: model.layers (1e3) must be an integer; write 1000");
  EXPECT_EQ(in_model("layers: 12.0"), "r.yaml:3: model.layers (12.0) must be an integer; write 12");
  EXPECT_EQ(in_model("layers: 12.5"), "r.yaml:3: model.layers (12.5) must be an integer");
  EXPECT_EQ(in_model("layers: 1_000"), "r.yaml:3: model.layers (1_000) must be an integer; write 1000");
  EXPECT_EQ(in_model("layers: 0x10"), "r.yaml:3: model.layers (0x10) must be an integer; write 16");
  EXPECT_EQ(in_model("layers: 010"),
            "r.yaml:3: model.layers (010) must not start with 0, which YAML reads as octal; write 10");
  EXPECT_EQ(in_model("layers: 00"),
            "r.yaml:3: model.layers (00) must not start with 0, which YAML reads as octal; write 0");
  EXPECT_EQ(in_model("dropout: 00.5"),
            "r.yaml:3: model.dropout (00.5) must not start with 0, which YAML reads as octal; write 0.5");
}

TEST(RecipeProblems, SuggestedNumbersKeepTheSignAndReadDecimalCommas) {
  const auto integer = [](const std::string& text) {
    const std::string begin = "r.yaml:3: model.layers (" + text + ") must be an integer";
    const std::string message = in_model("layers: " + text);
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(std::min(begin.size(), message.size()));
  };
  EXPECT_EQ(integer("-0x10"), "; write -16");
  EXPECT_EQ(integer("+0X1f"), "; write 31");
  EXPECT_EQ(integer("-0x0"), "; write 0");
  EXPECT_EQ(integer("-1_000"), "; write -1000");
  EXPECT_EQ(integer("1,000"), "; write 1000");
  EXPECT_EQ(integer("1,000.0"), "; write 1000");
  EXPECT_EQ(integer("10,00,000"), "; write 1000000");
  EXPECT_EQ(integer("1,5"), "; 1.5 is not an integer");
  EXPECT_EQ(integer("0,500"), "; 0.500 is not an integer");
  EXPECT_EQ(integer("1,0"), "; write 1");
  EXPECT_EQ(integer("1,5e3"), "; write 1500");
  EXPECT_EQ(integer("1,5,3"), "");
  EXPECT_EQ(integer("18_446_744_073_709_551_615"), "; write 18446744073709551615");
  EXPECT_EQ(integer("64K"), "; write 65536 for 64 x 1024, or 64000");
  EXPECT_EQ(integer("1.5 Mi"), "; write 1572864 for 1.5 x 1048576, or 1500000");
  EXPECT_EQ(integer("0.3k"), "") << "307.2 is not an integer";
  EXPECT_EQ(integer("64 layers"), "");
  const auto real = [](const std::string& text) {
    const std::string begin = "r.yaml:3: model.dropout (" + text + ") must be a number";
    const std::string message = in_model("dropout: " + text);
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(std::min(begin.size(), message.size()));
  };
  EXPECT_EQ(real("0,5"), "; write 0.5");
  EXPECT_EQ(real("-1,5e-3"), "; write -1.5e-3");
  EXPECT_EQ(real("1,000"), "; write 1000 or 1.000");
  EXPECT_EQ(real("1_000.5"), "; write 1000.5");
  EXPECT_EQ(real("-0x10"), "; write -16");
  EXPECT_EQ(real("20us"), "; write 2e-05");
  EXPECT_EQ(real("10%"), "; write 0.1");
  EXPECT_EQ(real("3 GB/s"), "; write 3000000000");
  EXPECT_EQ(real("1.5T"), "; write 1.5e+12");
  EXPECT_EQ(real("3 apples"), "");
  EXPECT_EQ(real("+-5"), "");
  EXPECT_EQ(real("1,5,3"), "");
  EXPECT_EQ(real("100.5,3"), "") << "a comma after the point separates no groups";
  EXPECT_EQ(real("100e5,3"), "");
}

TEST(RecipeProblems, ValuesOutsideTheirLimitsAreRefused) {
  EXPECT_EQ(in_model("layers: 0"), "r.yaml:3: model.layers (0) must be between 1 and 1000");
  EXPECT_EQ(in_model("layers: 3000000000"), "r.yaml:3: model.layers (3000000000) must be between 1 and 1000");
  EXPECT_EQ(in_model("layers: -99999999999999999999"),
            "r.yaml:3: model.layers (-99999999999999999999) must be between 1 and 1000");
  EXPECT_EQ(refusal_of("model: {hidden: 99999999999999999999}"),
            "r.yaml:1: model.hidden (99999999999999999999) must be between 1 and 9223372036854775807");
  EXPECT_EQ(refusal_of("model: {hidden: -9223372036854775809}"),
            "r.yaml:1: model.hidden (-9223372036854775809) must be between 1 and 9223372036854775807");
  EXPECT_EQ(refusal_of("model: {hidden: 63}"), "r.yaml:1: model.hidden (63) must be divisible by 8; nearest: 56, 64");
  EXPECT_EQ(in_model("dropout: 1.5"), "r.yaml:3: model.dropout (1.5) must be a probability (0 to 1)");
  EXPECT_EQ(in_model("dropout: 1e999"), "r.yaml:3: model.dropout (1e999) must fit in a double (about 1e-308 to 1e308)");
  EXPECT_EQ(second_line("resume: {seed: -1}"), "r.yaml:2: resume.seed (-1) must be between 0 and 18446744073709551615");
  EXPECT_EQ(second_line("resume: {seed: 18446744073709551616}"),
            "r.yaml:2: resume.seed (18446744073709551616) must be between 0 and 18446744073709551615");
  EXPECT_EQ(second_line("betas: [0.9, 1]"), "r.yaml:2: betas.1 (1) must be less than 1");
  EXPECT_EQ(second_line("betas: [0.9]"), "r.yaml:2: betas ([0.9]) must have a size of 2");
  EXPECT_EQ(second_line("name: \"\""), "r.yaml:2: name (\"\") must not be empty");
}

TEST(RecipeProblems, NanAndInfinityAreRefused) {
  for (const std::string word : {".nan", ".NaN", "nan", ".inf", "-.inf", "+.Inf", "inf", "-Infinity"}) {
    EXPECT_EQ(in_model("dropout: " + word), "r.yaml:3: model.dropout (" + word + ") must be a finite number");
    EXPECT_EQ(in_model("layers: " + word), "r.yaml:3: model.layers (" + word + ") must be a finite integer");
  }
}

TEST(RecipeProblems, BooleansAreTrueOrFalse) {
  EXPECT_EQ(in_model("tied: yes"), "r.yaml:3: model.tied (yes) must be true or false; write true");
  EXPECT_EQ(in_model("tied: Off"), "r.yaml:3: model.tied (Off) must be true or false; write false");
  EXPECT_EQ(in_model("tied: 1"), "r.yaml:3: model.tied (1) must be true or false; write true");
  EXPECT_EQ(in_model("tied: maybe"), "r.yaml:3: model.tied (maybe) must be true or false");
}

TEST(RecipeProblems, EnumsSuggestTheNearestName) {
  EXPECT_EQ(in_model("moe: {score: sofmax}"),
            "r.yaml:3: model.moe.score (sofmax) must be one of softmax, sigmoid; did you mean softmax?");
  EXPECT_EQ(in_model("moe: {score: Softmax}"),
            "r.yaml:3: model.moe.score (Softmax) must be one of softmax, sigmoid; did you mean softmax?");
  EXPECT_EQ(in_model("moe: {score: tanh}"), "r.yaml:3: model.moe.score (tanh) must be one of softmax, sigmoid");
  EXPECT_EQ(in_model("moe: {score: }"), "r.yaml:3: model.moe.score (nothing) must be one of softmax, sigmoid");
}

TEST(RecipeProblems, MissingRequiredKeysAreNamed) {
  EXPECT_EQ(refusal_of("name: a"), "r.yaml: model.hidden is not set; it must be at least 1");
  EXPECT_EQ(refusal_of("name: a\nmodel:\n  layers: 2\n"), "r.yaml:2: model.hidden is not set; it must be at least 1");
  EXPECT_EQ(second_line("sources: [{weight: 2}]"), "r.yaml:2: sources.0.path is not set; it must not be empty");
}

TEST(RecipeProblems, AllProblemsAreReportedTogetherInTheOrderOfTheFile) {
  EXPECT_EQ(
      refusal_of("nam: a\nmodel:\n  tied: yes\n  hidden: 63\n  moe: {score: x, experts: -1}\n", {"betas=[2]", "a.b=1"}),
      "command line: a.b=1: a is not a key; keys at the top level: name, model, etp, note, resume, betas, steps, "
      "sources\n"
      "command line: betas=[2]: betas.0 (2) must be less than 1\n"
      "command line: betas=[2]: betas ([2]) must have a size of 2\n"
      "r.yaml:1: nam is not a key; did you mean name?; keys at the top level: name, model, etp, note, resume, betas, "
      "steps, "
      "sources\n"
      "r.yaml:3: model.tied (yes) must be true or false; write true\n"
      "r.yaml:4: model.hidden (63) must be divisible by 8; nearest: 56, 64\n"
      "r.yaml:5: model.moe.score (x) must be one of softmax, sigmoid\n"
      "r.yaml:5: model.moe.experts (-1) must be at least 0");
}

TEST(RecipeProblems, LongListIsCut) {
  std::string text = minimal;
  for (int i = 0; i < 60; ++i) text += "unknown_" + std::to_string(i) + ": 1\n";
  const std::string message = refusal_of(text);
  EXPECT_TRUE(message.ends_with("\n... and 10 more")) << message;
}

TEST(RecipeProblems, HostileTextIsShownEscapedAndCut) {
  const std::string message = in_model("layers: \"a\\x1b[31m" + std::string(10000, 'z') + "\"");
  EXPECT_LT(message.size(), 200u);
  EXPECT_NE(message.find("(\"a\\x1b[31mzzz"), std::string::npos) << message;
}

TEST(Problems, AddsPositionAndValueToARuleBetweenKeys) {
  Problems problems;
  read<Recipe>(parse("model:\n  hidden: 64\n  moe:\n    experts: 63\n", "recipes/a.yaml"), problems);
  ASSERT_TRUE(problems.good({"model.moe.experts", "etp"}));
  problems.add("model.moe.experts", "must be divisible by parallel.ep (8); nearest: " + nearest_multiples(63, 8));
  problems.add("etp", "must divide 3");
  problems.add("model.layers", "must be even");
  problems.add("model.moe", "needs more");
  EXPECT_EQ(problems.text(),
            "recipes/a.yaml: etp (auto by default) must divide 3\n"
            "recipes/a.yaml:1: model.layers (2 by default) must be even\n"
            "recipes/a.yaml:3: model.moe needs more\n"
            "recipes/a.yaml:4: model.moe.experts (63) must be divisible by parallel.ep (8); nearest: 56, 64");
  EXPECT_EQ(refusal([&] { problems.throw_if_any(); }), problems.text());
}

TEST(Problems, ErrorContainsTheProblemsAsData) {
  Problems problems;
  read<Recipe>(parse("model:\n  hidden: 63\n  layer: 2\n", "a.yaml", std::vector<std::string>{"steps=x"}), problems);
  problems.add("etp", "must divide 3");
  try {
    problems.throw_if_any();
    FAIL() << "no error was thrown; expected RecipeError";
  } catch (const RecipeError& e) {
    ASSERT_EQ(e.problems().size(), 4u) << e.what();
    const auto has = [&](size_t i, std::string_view source, int line, std::string_view key, std::string_view begin) {
      const RecipeProblem& p = e.problems()[i];
      EXPECT_EQ(p.source, source);
      EXPECT_EQ(p.line, line);
      EXPECT_EQ(p.key, key);
      EXPECT_TRUE(p.message.starts_with(begin)) << p.message;
    };
    has(0, "a.yaml", 0, "etp", "etp (auto by default) must divide 3");
    has(1, "a.yaml", 2, "model.hidden", "model.hidden (63) must be");
    has(2, "a.yaml", 3, "model.layer", "model.layer is not a key");
    has(3, "command line: steps=x", 0, "steps", "steps (x) must be");
  }
}

TEST(Problems, RulesAboutUnreadableKeysAreOmitted) {
  Problems problems;
  read<Recipe>(parse("model: {hidden: x}\nsources: [{path: p, weight: x}]", "r.yaml"), problems);
  const std::string before = problems.text();
  EXPECT_FALSE(problems.good({"model.layers", "model.hidden"}));
  EXPECT_FALSE(problems.good({"model"}));
  EXPECT_FALSE(problems.good({"sources.0.weight"}));
  EXPECT_TRUE(problems.good({"model.layers", "sources.0.path"}));
  problems.add("model.hidden", "must be divisible by model.heads");
  EXPECT_EQ(problems.text(), before);
}

TEST(Problems, NamingAnUnknownKeyIsABug) {
  Problems problems;
  read<Recipe>(parse(minimal, "r.yaml"), problems);
  EXPECT_THROW(problems.add("model.hiden", "must be even"), std::logic_error);
}

}  // namespace
}  // namespace example
