#include "framework/config/typed_recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "framework/base/home.h"
#include "framework/base/philox.h"
#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

Recipe full() {
  Recipe r;
  r.name = "a: b # c";
  r.model = {.hidden = 128, .layers = 7, .dropout = 0.1, .tied = true, .moe = {64, Score::sigmoid, 1.25}};
  r.etp = 2;
  r.note = "none";
  r.resume = Resume{UINT64_MAX};
  r.betas = {1e-300, 0.30000000000000004};
  r.steps = {1, INT64_MAX};
  r.sources = {{"/data/a b.bin", 0.5}, {"~\"\\\n\t\x01 \xc3\xa4", 3}};
  return r;
}

TEST(Read, FillsEveryMember) {
  const Recipe r = read_text(R"(
name: "quoted"
model:
  hidden: 64
  layers: 3
  dropout: 1e-1
  tied: true
  moe: {experts: 8, score: sigmoid, capacity_factor: 1.25}
etp: 4
note: plain words
resume: {seed: 18446744073709551615}
betas: [0.8, .9]
steps: [10, 20]
sources:
  - path: a.bin
  - {path: b.bin, weight: 2}
)");
  EXPECT_EQ(r.name, "quoted");
  EXPECT_EQ(r.model, (Model{64, 3, 0.1, true, {8, Score::sigmoid, 1.25}}));
  EXPECT_EQ(r.etp, 4);
  EXPECT_EQ(r.note, "plain words");
  EXPECT_EQ(r.resume, Resume{UINT64_MAX});
  EXPECT_EQ(r.betas, (std::vector<double>{0.8, 0.9}));
  EXPECT_EQ(r.steps, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(r.sources, (std::vector<Source>{{"a.bin", 1}, {"b.bin", 2}}));
}

TEST(Read, KeepsInitialValuesOfMissingKeys) {
  Recipe expected;
  expected.model.hidden = 64;
  EXPECT_EQ(read_text(minimal), expected);
  EXPECT_EQ(read_text("model:\n  hidden: 64\n  moe:\n"), expected);
}

TEST(Read, UnsetOptionalsHaveOneWordEach) {
  EXPECT_EQ(read_text(minimal + "etp: auto\n").etp, std::nullopt);
  EXPECT_EQ(read_text(minimal + "etp: null\n").etp, std::nullopt);
  EXPECT_EQ(read_text(minimal + "etp:\n").etp, std::nullopt);
  EXPECT_EQ(read_text(minimal + "resume: none\n").resume, std::nullopt);
  EXPECT_EQ(read_text(minimal + "resume: {}\n").resume, Resume{});
  EXPECT_EQ(read_text(minimal + "note: none\n").note, std::nullopt);
  EXPECT_EQ(read_text(minimal + "note: \"none\"\n").note, "none");
  EXPECT_EQ(refusal_of(minimal + "etp: none\n"),
            "r.yaml:2: etp (none) has no meaning for this key; write a value or auto");
}

TEST(Read, WrittenListReplacesTheInitialList) {
  EXPECT_EQ(read_text(minimal + "betas: [0.5, 0.25]\n").betas, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(read_text(minimal + "steps: []\n").steps, std::vector<int64_t>{});
}

struct Files {
  std::string folder = "a", word;
  std::vector<std::string> files;

  template <class V>
  void fields(V& v) {
    v("folder", folder, "path", file_path, non_empty());
    v("word", word, "no path");
    v("files", files, "paths", file_path);
  }
};

TEST(Read, ReplacesALeadingTildeOfPathsOnly) {
  using hexad::base::expand_home;
  Problems problems;
  const Files read_files = read<Files>(parse("folder: ~/x\nword: ~/y\nfiles: [b, ~/z]\n", "r.yaml"), problems);
  EXPECT_FALSE(problems.any()) << problems.text();
  EXPECT_EQ(read_files.folder, expand_home("~/x"));
  EXPECT_EQ(read_files.word, "~/y");
  EXPECT_EQ(read_files.files, (std::vector<std::string>{"b", expand_home("~/z")}));
  read<Files>(parse("folder: ~no-such-user/x\n", "r.yaml"), problems);
  EXPECT_EQ(problems.text(),
            "r.yaml:1: folder (~no-such-user/x) begins with ~no-such-user, but there is no user no-such-user; write "
            "./~no-such-user/x for a name that begins with ~");
}

TEST(Write, RoundTripsEveryMember) {
  for (const Recipe& r : {full(), read_text(minimal)}) {
    const std::string text = write(r);
    EXPECT_EQ(read_text(text), r) << text;
    EXPECT_EQ(write(read_text(text)), text);
  }
}

TEST(Write, RoundTripsDoublesBitForBit) {
  const hexad::base::Philox bits(7, hexad::base::Purpose::synthetic);
  for (uint64_t i = 0; i < 2000; ++i) {
    const double x = std::bit_cast<double>(uint64_t{bits.bits(2 * i)} << 32 | bits.bits(2 * i + 1));
    if (!std::isfinite(x) || x == 0) continue;
    Recipe r = read_text(minimal);
    r.sources = {{"p", std::fabs(x)}};
    const double again = read_text(write(r)).sources[0].weight;
    EXPECT_EQ(std::bit_cast<uint64_t>(again), std::bit_cast<uint64_t>(std::fabs(x))) << "i = " << i;
  }
}

TEST(Write, RoundTripsAmbiguousTexts) {
  for (const std::string text :
       {"",     "true", "No",  "null", "~",  "12", "1e3", "-",  "- a", "a: b", "[", "a #b", "'",     "auto",
        ".inf", "...",  "---", "*a",   "&a", "!a", "<<",  " a", "a ",  "@",    "%", "\x7f", "a\r\nb"}) {
    Recipe r = read_text(minimal);
    r.name = "x" + text;
    r.note = text;
    EXPECT_EQ(read_text(write(r)), r) << write(r);
  }
}

TEST(Write, LooksLikeAHandwrittenRecipe) {
  Recipe r = read_text(minimal);
  r.sources = {{"a.bin", 2}};
  EXPECT_EQ(write(r), R"(name: run
model:
  hidden: 64
  layers: 2
  dropout: 0
  tied: false
  moe:
    experts: 0
    score: softmax
    capacity_factor: none
etp: auto
note: none
resume: none
betas: [0.9, 0.95]
steps: []
sources:
  - path: a.bin
    weight: 2
)");
}

TEST(Write, RefusesUnrepresentableValues) {
  Recipe r;
  r.model.dropout = std::numeric_limits<double>::infinity();
  EXPECT_THROW(write(r), std::logic_error);
  r = {};
  r.model.moe.score = static_cast<Score>(9);
  EXPECT_THROW(write(r), std::logic_error);
}

TEST(Differences, ListChangedKeysInOrder) {
  Recipe before = read_text(minimal), after = before;
  EXPECT_TRUE(differences(before, after).empty());
  after.model.hidden = 128;
  after.etp = 2;
  after.betas = {0.9, 0.99};
  after.sources = {{"a", 1}};
  EXPECT_EQ(differences(before, after),
            (std::vector<std::string>{"model.hidden: 64 -> 128", "etp: auto -> 2", "betas: [0.9, 0.95] -> [0.9, 0.99]",
                                      "sources.0.path: absent -> a", "sources.0.weight: absent -> 1"}));
  after = before;
  after.resume = Resume{5};
  EXPECT_EQ(differences(before, after),
            (std::vector<std::string>{"resume: none -> absent", "resume.seed: absent -> 5"}));
}

TEST(Settings, ContainKeysOfListElementsButNoSections) {
  const std::vector<Setting> all = settings(full());
  const auto value = [&](std::string_view path) {
    const auto at = std::ranges::find(all, path, &Setting::path);
    return at == all.end() ? "absent" : at->value;
  };
  EXPECT_EQ(all.front().path, "name");
  EXPECT_EQ(value("sources.1.weight"), "3");
  EXPECT_EQ(value("model"), "absent") << "a section has no value";
}

TEST(Fingerprint, SurvivesTheRoundTripAndChangesWithTheLastBitOfADouble) {
  Recipe changed = full();
  EXPECT_EQ(fingerprint(full()), fingerprint(read_text(write(full()))));
  changed.sources[1].weight = std::nextafter(3.0, 4.0);
  EXPECT_NE(fingerprint(full()), fingerprint(changed));
}

TEST(Reference, ListsKeyTypeDefaultLegalValuesAndMeaning) {
  const std::string text = reference<Recipe>();
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has("| key | type | default | legal | meaning |\n| --- |")) << text;
  EXPECT_TRUE(has("| `name` | text | `run` | not empty | name of the run |\n")) << text;
  EXPECT_TRUE(has("## model\n\nthe network\n\n")) << text;
  EXPECT_TRUE(has("| `model.hidden` | integer | required | >= 1, multiple of 8 | width |\n")) << text;
  EXPECT_TRUE(has("| `etp` | integer or `auto` | `auto` | >= 1 |")) << text;
  EXPECT_TRUE(has("| `betas` | list of number | `[0.9, 0.95]` | size 2, >= 0, < 1 |")) << text;
  EXPECT_TRUE(has("| `model.moe.score` | word | `softmax` | `softmax`, `sigmoid` |")) << text;
  EXPECT_TRUE(has("relative to the mean \\| none: no limit |\n")) << text;
  EXPECT_TRUE(has("| `sources` | list of section | `[]` |  | mixture |\n")) << text;
  EXPECT_TRUE(has("| `sources.0.path` | text | required | not empty | dataset |\n")) << text;
}

TEST(KeyWords, AreNamesOfEnumerationsBooleansAndUnsetValues) {
  std::map<std::string, std::vector<std::string>> words;
  for (const KeyWords& key : words_of_keys<Recipe>()) words[key.path] = key.words;
  const std::map<std::string, std::vector<std::string>> expected{{"model.tied", {"true", "false"}},
                                                                 {"model.moe.score", {"softmax", "sigmoid"}},
                                                                 {"model.moe.capacity_factor", {"none"}},
                                                                 {"etp", {"auto"}},
                                                                 {"note", {"none"}},
                                                                 {"resume", {"none"}}};
  EXPECT_EQ(words, expected);
}

}  // namespace
}  // namespace example
