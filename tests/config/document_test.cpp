// Texts (RecipeText), files (RecipeFiles) and includes (RecipeIncludes) that are refused, legal includes, and overrides
// on the command line.
#include "framework/config/document.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "framework/config/position_of.h"
#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

namespace fs = std::filesystem;

std::string refused_text(std::string_view text) {
  return refusal([&] { parse(text, "r.yaml"); });
}

/// Temporary folder of a test, which is the working directory during the test and is removed at its end.
class Files : public testing::Test {
 protected:
  Files() {
    fs::create_directories(root_ / "in");
    fs::current_path(root_);
  }
  ~Files() override {
    fs::current_path("/");
    fs::remove_all(root_);
  }
  void put(const fs::path& path, std::string_view text) { std::ofstream(root_ / path, std::ios::binary) << text; }
  std::string refused(const std::string& path) {
    return refusal([&] { load(path); });
  }
  Recipe loaded(const std::string& path, const std::vector<std::string>& overrides = {}) {
    Problems problems;
    Recipe recipe = read<Recipe>(load(path, overrides), problems);
    problems.throw_if_any();
    return recipe;
  }

  fs::path root_ = fs::temp_directory_path() / ("hexad-document-test-" + std::to_string(getpid()));
};
using RecipeFiles = Files;
using RecipeIncludes = Files;
using Include = Files;

TEST(RecipeText, DuplicateKeysAreRefused) {
  EXPECT_EQ(refused_text("a: 1\nb:\n  c: 1\n  c: 2\n"),
            "r.yaml:4: `c` is written twice in one section; remove one of the two");
  EXPECT_EQ(refused_text("a: 1\n\"a\": 2\n"), "r.yaml:2: `a` is written twice in one section; remove one of the two");
  EXPECT_EQ(refused_text("a: {b: 1, b: 1}"), "r.yaml:1: `b` is written twice in one section; remove one of the two");
}

TEST(RecipeText, SecondDocumentIsRefused) {
  EXPECT_EQ(refused_text("a: 1\n---\nb: 1\n"),
            "r.yaml:2: a second YAML document begins here; a recipe must be one document");
  EXPECT_EQ(refused_text("a: 1\n---\n"), "r.yaml:2: a second YAML document begins here; a recipe must be one document");
  EXPECT_EQ(refused_text("---\na: 1\n...\n"), "accepted");
}

TEST(RecipeText, NonUtf8BytesAndControlCharactersAreRefused) {
  EXPECT_EQ(refused_text("a: 1\nb: \xff\n"), "r.yaml:2: not UTF-8: byte 0xff; expected UTF-8 text");
  EXPECT_EQ(refused_text("a: \xc0\xaf"), "r.yaml:1: not UTF-8: byte 0xc0; expected UTF-8 text");      // overlong '/'
  EXPECT_EQ(refused_text("a: \xed\xa0\x80"), "r.yaml:1: not UTF-8: byte 0xed; expected UTF-8 text");  // surrogate
  EXPECT_EQ(refused_text("a: \xf4\x90\x80\x80"), "r.yaml:1: not UTF-8: byte 0xf4; expected UTF-8 text");
  EXPECT_EQ(refused_text("a: \xe2\x82"), "r.yaml:1: not UTF-8: byte 0xe2; expected UTF-8 text");  // truncated
  EXPECT_EQ(refused_text(std::string_view("a\0:\0 \0", 6)), "r.yaml:1: control character 0x00; expected plain text");
  EXPECT_EQ(refused_text("a: 1\n\x04"
                         "b: 2"),
            "r.yaml:2: control character 0x04; expected plain text");
  EXPECT_EQ(refused_text("a: 1\rb: 2"), "r.yaml:1: control character 0x0d; expected plain text");
}

TEST(RecipeText, Utf8AndWindowsLineEndingsAreAccepted) {
  EXPECT_EQ(read_text("\xef\xbb\xbfname: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\r\nmodel: {hidden: 64}\r\n").name,
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(RecipeText, AnchorsTagsAndMergeKeysAreRefused) {
  EXPECT_EQ(refused_text("a: &x [*x]"),
            "r.yaml:1: anchors (&name) are not allowed; remove the anchor, or quote a text that begins with &");
  EXPECT_EQ(refused_text("a: &x 1\nb: *x"),
            "r.yaml:1: anchors (&name) are not allowed; remove the anchor, or quote a text that begins with &");
  EXPECT_EQ(refused_text("&x a: 1"),
            "r.yaml:1: anchors (&name) are not allowed; remove the anchor, or quote a text that begins with &");
  EXPECT_EQ(refused_text("a: 1\nb: !!int 1"),
            "r.yaml:2: the tag `tag:yaml.org,2002:int` is not allowed; remove it, or quote a text that begins with !");
  EXPECT_EQ(refused_text("a: !x {}"),
            "r.yaml:1: the tag `!x` is not allowed; remove it, or quote a text that begins with !");
  EXPECT_EQ(refused_text("a: 1\n<<: {b: 1}"),
            "r.yaml:2: merge keys (<<) are not allowed; use include: other.yaml at the top level");
}

TEST(RecipeText, AliasBombIsRefused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += hexad::base::cat("a", i, ": &a", i, " [*a", i - 1);
    for (int j = 0; j < 8; ++j) bomb += hexad::base::cat(", *a", i - 1);
    bomb += "]\n";
  }
  EXPECT_EQ(refused_text(bomb),
            "r.yaml:1: anchors (&name) are not allowed; remove the anchor, or quote a text that begins with &");
}

TEST(RecipeText, TwentyThousandBracketsAreRefused) {
  const std::string deep = "r.yaml:1: nested deeper than 32 levels, the maximum";
  EXPECT_EQ(refused_text("a: " + std::string(20000, '[') + std::string(20000, ']')), deep);
  const std::string open = "r.yaml:1: a key must be a word, not a list or map; is a bracket left open?";
  EXPECT_EQ(refused_text("a: " + std::string(20000, '[')), open);
  EXPECT_EQ(refused_text("a: " + std::string(20000, '{')), open);
  std::string lists, maps;
  for (int i = 0; i < 20000; ++i) lists += "- ", maps += "{a: ";
  EXPECT_EQ(refused_text(lists), deep);
  EXPECT_EQ(refused_text(maps + std::string(20000, '}')), deep);
}

TEST(RecipeText, MoreThanThirtyTwoLevelsAreRefused) {
  const auto nested = [](size_t n) { return "a: " + std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(refused_text(nested(31)), "accepted");
  EXPECT_EQ(refused_text(nested(32)), "r.yaml:1: nested deeper than 32 levels, the maximum");
}

TEST(RecipeText, SyntaxErrorsNameTheLine) {
  const std::string message = refused_text("a: 1\nb: [1, 2\nc: 3\n");
  EXPECT_TRUE(message.starts_with("r.yaml:") && message.find(": not valid YAML: ") != std::string::npos) << message;
  const std::string tab = "; the indentation has a tab, but YAML allows only spaces there";
  for (const char* text : {"a: 1\nb:\n\tc: 1\n", "b:\n  c: 1\n\td: 2\n"}) {
    const std::string refused = refused_text(text);
    EXPECT_TRUE(refused.starts_with("r.yaml:3: not valid YAML: ") && refused.ends_with(tab)) << refused;
  }
  const std::string column = "; keys of one section must begin in the same column, and a text with ': ' needs quotes";
  EXPECT_EQ(refused_text("a: 1\n  b: 2\n"), "r.yaml:2: not valid YAML: illegal map value" + column);
  EXPECT_EQ(refused_text("a:\n  b: 2\n c: 3\n"), "r.yaml:3: not valid YAML: end of map not found" + column);
  EXPECT_EQ(refused_text("a: 1\n? [b]\n: 1"),
            "r.yaml:2: a key must be a word, not a list or map; is a bracket left open?");
  EXPECT_EQ(refused_text("a: 1\n: 1"), "r.yaml:2: a key is missing before ':'; expected `key: value`");
  EXPECT_EQ(refused_text("\"\": 1"), "r.yaml:1: a key is empty; expected `key: value`");
}

TEST_F(RecipeFiles, FilesThatAreNotRecipesAreRefused) {
  put("empty.yaml", "");
  put("comment.yaml", "# nothing\n");
  put("list.yaml", "- a\n");
  put("word.yaml", "train\n");
  put("huge.yaml", "a: " + std::string(256 << 10, 'x'));
  EXPECT_EQ(refused("empty.yaml"), "empty.yaml: is empty; expected `key: value` lines");
  EXPECT_EQ(refused("comment.yaml"), "comment.yaml: is empty; expected `key: value` lines");
  EXPECT_EQ(refused("list.yaml"), "list.yaml:1: expected `key: value` lines at the top level, found a list");
  EXPECT_EQ(refused("word.yaml"), "word.yaml:1: expected `key: value` lines at the top level, found a single value");
  EXPECT_EQ(refused("huge.yaml"),
            "huge.yaml: has more than 262144 bytes; a recipe and its includes may have at most 262144 bytes");
  put("rest.yaml", "b: " + std::string(200, 'x') + "\n");
  put("long.yaml", "include: rest.yaml\n#" + std::string((256 << 10) - 120, 'x'));
  EXPECT_EQ(
      refused("long.yaml"),
      "rest.yaml: has more than 100 bytes; a recipe and its includes may have at most 262144 bytes, and the files "
      "read before have 262044");
  EXPECT_EQ(refused("missing.yaml"), "missing.yaml: no such file");
  EXPECT_EQ(refused("no/such/folder.yaml"), "no/such/folder.yaml: no such file");
  EXPECT_EQ(refused("in"), "in: is a directory; expected a YAML file");
  EXPECT_EQ(refused(""), ": no such file");
  ASSERT_EQ(mkfifo("pipe", 0600), 0);
  EXPECT_EQ(refused("pipe"), "pipe: is not a regular file but a pipe");
  EXPECT_EQ(refused("/dev/zero"), "/dev/zero: is not a regular file but a character device");
  EXPECT_EQ(refused("empty.yaml/x"), "empty.yaml/x: no such file: empty.yaml is not a directory");
  fs::create_symlink("loop.yaml", root_ / "loop.yaml");
  EXPECT_EQ(refused("loop.yaml"), "loop.yaml: Too many levels of symbolic links");
  const std::string longest(300, 'x');
  EXPECT_EQ(refused(longest), longest + ": File name too long");
}

TEST_F(RecipeFiles, TooManyValuesAreRefused) {
  std::string text = "a: [";
  for (int i = 0; i < 20000; ++i) text += "1,";
  put("many.yaml", text + "]");
  EXPECT_EQ(refused("many.yaml"), "many.yaml:1: too many values; a recipe and its includes may have at most 10000");
}

TEST_F(RecipeIncludes, CyclesAreRefused) {
  put("a.yaml", "include: b.yaml\n");
  put("b.yaml", "x: 1\ninclude: [c.yaml]\n");
  put("c.yaml", "include: ./in/../a.yaml\n");
  put("self.yaml", "include: self.yaml\n");
  EXPECT_EQ(refused("a.yaml"),
            "c.yaml:1: include ./in/../a.yaml: includes itself: a.yaml -> b.yaml -> c.yaml -> a.yaml; remove one of "
            "these includes");
  EXPECT_EQ(refused("self.yaml"),
            "self.yaml:1: include self.yaml: includes itself: self.yaml -> self.yaml; remove one of these includes");
}

TEST_F(RecipeIncludes, IncludesOutsideTheRecipesFolderAreRefused) {
  put("out.yaml", minimal);
  const std::string outside = ": is outside the recipe's folder " + fs::canonical(root_ / "in").string() +
                              "; use an absolute path, or --include-root with a folder that contains the included file";
  put("in/up.yaml", "name: a\ninclude: ../out.yaml\n");
  EXPECT_EQ(refused("in/up.yaml"), "in/up.yaml:2: include ../out.yaml" + outside);
  fs::create_symlink(root_ / "out.yaml", root_ / "in/link.yaml");
  put("in/linked.yaml", "include: link.yaml\n");
  EXPECT_EQ(refused("in/linked.yaml"), "in/linked.yaml:1: include link.yaml" + outside);
  fs::create_directories("in2");
  put("in2/x.yaml", minimal);
  put("in/sibling.yaml", "include: ../in2/x.yaml\n");
  EXPECT_EQ(refused("in/sibling.yaml"), "in/sibling.yaml:1: include ../in2/x.yaml" + outside);
}

TEST_F(RecipeIncludes, AbsoluteIncludeDoesNotOpenOtherFolders) {
  fs::create_directories("shared");
  put("out.yaml", minimal);
  put("shared/base.yaml", "include: ../out.yaml\n");
  const std::string base = fs::canonical(root_ / "shared").string() + "/base.yaml";
  put("in/a.yaml", "include: " + base + "\n");
  EXPECT_TRUE(refused("in/a.yaml").starts_with(base + ":1: include ../out.yaml: is outside the recipe's folder"));
  put("in/b.yaml", "include: [/etc/passwd]\n");
  EXPECT_TRUE(refused("in/b.yaml").starts_with("/etc/passwd:1: ")) << refused("in/b.yaml");
  put("in/c.yaml", "include: /no/such.yaml\n");
  EXPECT_EQ(refused("in/c.yaml"), "in/c.yaml:1: include /no/such.yaml: no such file");
}

TEST_F(RecipeIncludes, MissingAndMalformedIncludesAreRefused) {
  put("a.yaml", "include: gone.yaml\n");
  EXPECT_EQ(refused("a.yaml"), "a.yaml:1: include gone.yaml: no such file");
  put("a.yaml", "include: in\n");
  EXPECT_EQ(refused("a.yaml"), "a.yaml:1: include in: is a directory; expected a YAML file");
  put("a.yaml", "include: {x: y}\n");
  EXPECT_EQ(refused("a.yaml"), "a.yaml:1: include is a section; expected a file name or a list of file names");
  put("a.yaml", "include:\n");
  EXPECT_EQ(refused("a.yaml"), "a.yaml:1: include has an empty value; expected a file name or a list of file names");
  put("a.yaml", "include: [[b.yaml]]\n");
  EXPECT_EQ(refused("a.yaml"),
            "a.yaml:1: include has a list in its list; expected a file name or a list of file names");
}

TEST_F(RecipeIncludes, DoublingIncludesAreRefused) {
  for (int i = 0; i < 20; ++i) {
    const std::string next = std::to_string(i + 1) + ".yaml";
    put(std::to_string(i) + ".yaml", "include: [" + next + ", " + next + "]\n");
  }
  put("20.yaml", "a: 1\n");
  const std::string message = refused("0.yaml");
  EXPECT_TRUE(message.ends_with(": too many files; a recipe and its includes may be at most 64 files")) << message;
}

TEST_F(Include, LaterKeysReplaceIncludedKeysMapByMap) {
  fs::create_directories("in/sub");
  put("in/sub/base.yaml", "name: base\nmodel: {hidden: 64, layers: 4, moe: {experts: 8}}\nsteps: [1, 2]\n");
  put("in/sub/deep.yaml", "include: base.yaml\nmodel: {layers: 6}\n");
  put("in/b.yaml", "name: b\nmodel: {moe: {score: sigmoid}}\n");
  put("in/a.yaml", "model:\n  moe:\n    experts: 16\nsteps: [3]\ninclude: [sub/deep.yaml, b.yaml]\n");
  const Recipe r = loaded("in/a.yaml");
  EXPECT_EQ(r.name, "b");
  EXPECT_EQ(r.model, (Model{64, 6, 0, false, {16, Score::sigmoid, std::nullopt}}));
  EXPECT_EQ(r.steps, std::vector<int64_t>{3});
  EXPECT_EQ(loaded("in/a.yaml", {"model.moe.experts=32"}).model.moe.experts, 32);
}

TEST_F(Include, MayBeAnywhereIfItsPathIsAbsolute) {
  fs::create_directories("shared/parts");
  put("shared/parts/model.yaml", "model: {hidden: 64, layers: 4}\n");
  put("shared/base.yaml", "include: parts/model.yaml\nmodel: {layers: 6}\n");
  put("in/a.yaml", "include: " + fs::canonical(root_ / "shared").string() + "/base.yaml\nmodel: {dropout: 0.5}\n");
  EXPECT_EQ(loaded("in/a.yaml").model, (Model{64, 6, 0.5, false, {}}));
  ::setenv("HOME", root_.c_str(), 1);
  put("in/home.yaml", "include: ~/shared/base.yaml\n");
  EXPECT_EQ(loaded("in/home.yaml").model, (Model{64, 6, 0, false, {}}));
}

TEST_F(Include, MayBeInTheIncludeRoot) {
  put("base.yaml", minimal);
  put("in/a.yaml", "include: ../base.yaml\n");
  for (const std::string& root : {std::string("."), root_.string()}) {
    Problems problems;
    EXPECT_EQ(read<Recipe>(load("in/a.yaml", {}, root), problems).model.hidden, 64);
  }
  EXPECT_EQ(refusal([&] { load("in/a.yaml", {}, "none"); }), "--include-root none: no such folder");
  EXPECT_EQ(refusal([&] { load("in/a.yaml", {}, "base.yaml"); }),
            "--include-root base.yaml: is a regular file, not a folder");
}

TEST_F(Include, EmptySectionReplacesNothing) {
  put("base.yaml", minimal);
  put("a.yaml", "include: base.yaml\nmodel:\n");
  EXPECT_EQ(loaded("a.yaml").model.hidden, 64);
}

TEST_F(Include, ProblemsNameTheirFile) {
  put("in/base.yaml", "name: base\nmodel:\n  hidden: 63\n");
  put("in/a.yaml", "include: base.yaml\nmodel:\n  tied: yes\n");
  EXPECT_EQ(refusal([&] { loaded("in/a.yaml"); }),
            "in/a.yaml:3: model.tied (yes) must be true or false; write true\n"
            "in/base.yaml:3: model.hidden (63) must be divisible by 8; nearest: 56, 64");
}

TEST(Override, SetsKeysAndListElements) {
  const Recipe r = read_text(minimal + "sources: [{path: a}, {path: b}]\n",
                             {"model.moe.experts=8", "name=a=b", "betas=[0.5, 0.6]", "sources.1.weight=3",
                              "model.moe={score: sigmoid}", "model.layers=3", "model.layers=5", "note="});
  EXPECT_EQ(r.model, (Model{64, 5, 0, false, {8, Score::sigmoid, std::nullopt}}));
  EXPECT_EQ(r.name, "a=b");
  EXPECT_EQ(r.betas, (std::vector<double>{0.5, 0.6}));
  EXPECT_EQ(r.sources, (std::vector<Source>{{"a", 1}, {"b", 3}}));
  EXPECT_EQ(r.note, std::nullopt);
}

TEST(Override, SectionMergesLikeAnIncludedSection) {
  const std::string recipe = "model: {hidden: 64, layers: 4, moe: {experts: 8, score: sigmoid}}\nsteps: [1, 2]\n";
  EXPECT_EQ(read_text(recipe, {"model.moe={experts: 16}"}).model.moe, (Moe{16, Score::sigmoid, std::nullopt}));
  EXPECT_EQ(read_text(recipe, {"model={moe: {experts: 16}, layers: 5}"}).model,
            (Model{64, 5, 0, false, {16, Score::sigmoid, std::nullopt}}));
  EXPECT_EQ(read_text(recipe, {"model={moe: {}}", "model=", "model.moe=null"}).model,
            (Model{64, 4, 0, false, {8, Score::sigmoid, std::nullopt}}));
  EXPECT_EQ(read_text(recipe, {"steps=[3]"}).steps, std::vector<int64_t>{3}) << "lists are replaced";
  EXPECT_EQ(refusal_of(recipe, {"model.moe={expert: 16}"}),
            "command line: model.moe={expert: 16}: model.moe.expert is not a key; did you mean experts?; keys of "
            "model.moe: experts, score, capacity_factor");
}

TEST(Override, TextIsTakenLiterallyUnlessQuotedOrInBrackets) {
  for (const std::string text :
       {"runs/a #2", "a: b",    "*x",     "&x a",  "!x",        "- a", "%a",    "@a",
        "`a`",       "a, b",    "#1",     " a ",   "a \"b\" c", "\"a", "'",     "\"a\" and \"b\"",
        "it's",      "~",       "~/runs", "a\\nb", "|",         "> a", "x [1]", "a # b # c",
        "\"a\" # b", "\xc3\xa4"})
    EXPECT_EQ(read_text(minimal, {"name=" + text}).name, text);
  EXPECT_EQ(read_text(minimal, {"name=\"runs/a #2\""}).name, "runs/a #2") << "quotes of YAML are removed";
  EXPECT_EQ(read_text(minimal, {"name='it''s'"}).name, "it's");
  EXPECT_EQ(read_text(minimal, {"name=\"a\\x41\""}).name, "aA");
  EXPECT_EQ(read_text(minimal, {"note=none"}).note, std::nullopt);
  EXPECT_EQ(read_text(minimal, {"note='none'"}).note, "none");
  EXPECT_EQ(
      refusal_of(minimal, {"betas=[0.5, 0.6] # mine"}),
      "command line: betas=[0.5, 0.6] # mine: begins with a bracket but does not end with the closing bracket; add "
      "the bracket, or quote the text");
  EXPECT_EQ(refusal_of(minimal, {"name=\xff"}),
            "command line: name=\xef\xbf\xbd: not UTF-8: byte 0xff; expected UTF-8 text");
  EXPECT_EQ(refusal_of(minimal, {"model.layers=3 # three"}),
            "command line: model.layers=3 # three: model.layers (3 # three) must be an integer");
}

TEST(Override, ProblemsNameTheCommandLine) {
  EXPECT_EQ(refusal_of(minimal, {"model.layers=0"}),
            "command line: model.layers=0: model.layers (0) must be between 1 and 1000");
  EXPECT_EQ(refusal_of(minimal, {"model.moe.expert=8"}),
            "command line: model.moe.expert=8: model.moe.expert is not a key; did you mean experts?; keys of "
            "model.moe: experts, score, "
            "capacity_factor");
  EXPECT_EQ(refusal_of(minimal, {"model.hidden.x=1"}),
            "command line: model.hidden.x=1: model.hidden (a section) must be an integer");
}

TEST(PositionOf, IsThatOfTheInnermostSection) {
  const std::vector<std::string> overrides{"batch.micro=2"};
  const Document document = parse("model:\n  layers: 2\n  moe: {experts: 4}\n", "a.yaml", overrides);
  EXPECT_EQ(position_of(document, "model.layers"), "a.yaml:2");
  EXPECT_EQ(position_of(document, "model.moe.top_k"), "a.yaml:3") << "the section of a key that is not written";
  EXPECT_EQ(position_of(document, "batch.micro"), "command line: batch.micro=2");
  EXPECT_EQ(position_of(document, "optim.lr"), "");
  EXPECT_EQ(position_of(document, ""), "");
}

TEST(Override, IsRefusedIfMalformed) {
  for (const std::string text : {"model", "=1", ".a=1", "a.=1", "a..b=1"})
    EXPECT_EQ(refusal_of(minimal, {text}),
              "command line: " + text + ": expected key.path=value, such as train.steps=100");
  EXPECT_EQ(refusal_of(minimal, {"model.layers = 3"}),
            "command line: model.layers = 3: has a blank in the key; expected key.path=value without blanks before "
            "the =");
  EXPECT_EQ(refusal_of(minimal + "sources: [{path: a}]\n", {"sources.1.weight=2"}),
            "command line: sources.1.weight=2: `1` must be an index of the list, a whole number from 0 to 0");
  EXPECT_EQ(refusal_of(minimal, {"betas=[*x]"}),
            "command line: betas=[*x]: not valid YAML: the referenced anchor is not defined");
  EXPECT_EQ(refusal_of(minimal, {"betas=[&x a]"}),
            "command line: betas=[&x a]: anchors (&name) are not allowed; remove the anchor, or quote a text that "
            "begins with &");
  EXPECT_EQ(refusal_of(minimal, {"betas=[1"}),
            "command line: betas=[1: a key must be a word, not a list or map; is a bracket left open?");
}

}  // namespace
}  // namespace example
