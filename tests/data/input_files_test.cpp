#include "framework/data/input_files.h"
#include "framework/base/enum_names.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/data/data_folder.h"
#include "tests/support/file_permissions.h"

namespace hexad::data {

using namespace base;
namespace {

using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

/// Test fixture with a scratch folder. By default, the inputs are in `in` and the output is `out`.
class Inputs : public testing::Test {
 protected:
  InputRules rules() const { return {.inputs = {folder_ / "in"}, .output = folder_ / "out"}; }

  std::string below(const std::string& path) const { return path.substr(folder_.path().size() + 1); }
  Texts taken(const InputRules& rules) const {
    Texts paths;
    for (const InputFile& file : find_inputs(rules).taken) paths.push_back(below(file.path));
    return paths;
  }
  Texts skipped(const InputRules& rules) const {
    Texts lines;
    for (const SkippedFile& file : find_inputs(rules).skipped)
      lines.push_back(cat(below(file.path), ": ", base::enum_name(file.why), file.what.empty() ? "" : ", ", file.what));
    return lines;
  }
  void link(const std::string& target, const std::string& name) const { fs::create_symlink(target, folder_ / name); }
  std::string refusal(ExitCode code, const InputRules& rules) const {
    return message_of(code, [&] { find_inputs(rules); });
  }

  ScratchFolder folder_;
};

TEST_F(Inputs, AreSortedByPathAndHiddenFilesAreSkipped) {
  for (const char* name : {"in/b.txt", "in/a/z.txt", "in/a/c.txt", "in/a.txt", "in/.hidden", "in/.git/x"})
    folder_.write(name, "text");
  EXPECT_EQ(taken(rules()), (Texts{"in/a.txt", "in/a/c.txt", "in/a/z.txt", "in/b.txt"}));
  EXPECT_EQ(skipped(rules()), (Texts{"in/.git/: hidden", "in/.hidden: hidden"}));
  InputRules both = rules();
  both.inputs = {folder_ / "in/b.txt", folder_ / "in/a/", folder_ / "in/.hidden"};
  EXPECT_EQ(taken(both), (Texts{"in/b.txt", "in/a/c.txt", "in/a/z.txt", "in/.hidden"}))
      << "a hidden file is read if it is named";
}

TEST_F(Inputs, LinksAreFollowedOnlyOnRequest) {
  folder_.write("in/a.txt", "text");
  folder_.write("outside/b.txt", "text");
  link("a.txt", "in/again.txt");
  link("../outside", "in/folder");
  link("../outside/b.txt", "in/b.txt");
  link("nowhere", "in/broken.txt");
  link("loop.txt", "in/loop.txt");
  link("..", "in/up");
  EXPECT_EQ(taken(rules()), Texts{"in/a.txt"});
  EXPECT_EQ(skipped(rules()), (Texts{"in/again.txt: link, -> a.txt", "in/b.txt: link, -> ../outside/b.txt",
                                     "in/broken.txt: link, -> nowhere", "in/folder: link, -> ../outside",
                                     "in/loop.txt: link, -> loop.txt", "in/up: link, -> .."}));
  InputRules following = rules();
  following.follow_links = true;
  EXPECT_EQ(taken(following), (Texts{"in/a.txt", "in/b.txt"})) << "each file is read once";
  const Texts left = skipped(following);
  ASSERT_EQ(left.size(), 6u);
  EXPECT_EQ(left[0], "in/broken.txt: broken link, is a link to nowhere, which does not exist");
  EXPECT_EQ(left[1], "in/loop.txt: broken link, Too many levels of symbolic links");
  EXPECT_EQ(left[2], cat("in/again.txt: same file again, as ", folder_ / "in/a.txt"));
  EXPECT_EQ(left[3], cat("in/folder/b.txt: same file again, as ", folder_ / "in/b.txt"));
}

TEST_F(Inputs, LinkGivenAsInputIsFollowed) {
  folder_.write("real/a.txt", "text");
  link("real", "in");
  link("real/a.txt", "a.txt");
  EXPECT_EQ(taken(rules()), Texts{"in/a.txt"});
  InputRules file = rules();
  file.inputs = {folder_ / "a.txt"};
  EXPECT_EQ(taken(file), Texts{"a.txt"});
}

TEST_F(Inputs, FileWithTwoNamesIsReadOnce) {
  folder_.write("in/b.txt", "text");
  fs::create_hard_link(folder_ / "in/b.txt", folder_ / "in/a.txt");
  EXPECT_EQ(taken(rules()), Texts{"in/a.txt"});
  EXPECT_EQ(skipped(rules()), Texts{cat("in/b.txt: same file again, as ", folder_ / "in/a.txt")});
}

TEST_F(Inputs, RepeatedInputIsRefused) {
  folder_.write("in/a/b.txt", "text");
  link("in/a/b.txt", "link.txt");
  const auto twice = [&](const Texts& inputs) {
    InputRules r = rules();
    for (const std::string& input : inputs) r.inputs.push_back(folder_ / input);
    return refusal(ExitCode::usage, r);
  };
  expect_contains(twice({"in"}), "in: is given twice by --input; name each input once");
  expect_contains(twice({"in/a"}), "in/a: is given twice by --input; name each input once");
  expect_contains(twice({"in/a/./b.txt"}), cat("b.txt: is given twice by --input, also as ", folder_ / "in/a/b.txt"));
  expect_contains(twice({"link.txt"}), cat("link.txt: is given twice by --input, also as ", folder_ / "in/a/b.txt"));
}

TEST_F(Inputs, PatternsSelectFiles) {
  for (const char* name :
       {"in/README.md", "in/config.json", "in/a.txt", "in/old/b.txt", "in/old/c.md", "in/x/old/d.txt"})
    folder_.write(name, "text");
  const auto including = [&](Texts include, Texts exclude) {
    InputRules r = rules();
    r.include = std::move(include);
    r.exclude = std::move(exclude);
    return taken(r);
  };
  EXPECT_EQ(including({"*.txt"}, {}), (Texts{"in/a.txt", "in/old/b.txt", "in/x/old/d.txt"}));
  EXPECT_EQ(including({"*.txt", "*.md"}, {"README*"}),
            (Texts{"in/a.txt", "in/old/b.txt", "in/old/c.md", "in/x/old/d.txt"}));
  EXPECT_EQ(including({}, {"*.md", "*.json"}), (Texts{"in/a.txt", "in/old/b.txt", "in/x/old/d.txt"}));
  EXPECT_EQ(including({}, {"old", "*.[jm]*"}), Texts{"in/a.txt"})
      << "a pattern without a slash matches folders at any depth";
  EXPECT_EQ(including({}, {"old/", "*.[jm]*"}), Texts{"in/a.txt"});
  EXPECT_EQ(including({"old/*"}, {}), (Texts{"in/old/b.txt", "in/old/c.md"}))
      << "a pattern with a slash matches the path below the input";
  EXPECT_EQ(including({"**/old/*"}, {"*.md"}), (Texts{"in/old/b.txt", "in/x/old/d.txt"}));
  EXPECT_EQ(including({folder_ / "in/old/*.txt"}, {}), Texts{"in/old/b.txt"});
  InputRules named = rules();
  named.inputs = {folder_ / "in/README.md", folder_ / "in/a.txt"};
  named.exclude = {"*.md"};
  EXPECT_EQ(taken(named), Texts{"in/a.txt"}) << "patterns also apply to files named on the command line";
  EXPECT_EQ(skipped(named), Texts{"in/README.md: excluded"});
}

TEST_F(Inputs, PatternWithoutMatchIsReported) {
  folder_.write("in/a.txt", "text");
  InputRules r = rules();
  r.include = {"*.txt", "*.text"};
  r.exclude = {"*.md"};
  EXPECT_EQ(find_inputs(r).idle_patterns, (Texts{"--include *.text", "--exclude *.md"}));
}

TEST_F(Inputs, KnownBinariesAreSkippedByContent) {
  folder_.write("in/a.txt", "text");
  folder_.write("in/picture.txt", std::string_view("\x89PNG\r\n\x1a\n\0\0", 10));
  folder_.write("in/log", std::string_view("\x1f\x8b\x08\0", 4));
  folder_.write("in/table.txt", std::string_view("PAR1\x15\0", 6));
  folder_.write("in/gguf.txt", "GGUF is a file format.");
  EXPECT_EQ(taken(rules()), (Texts{"in/a.txt", "in/gguf.txt"}));
  EXPECT_EQ(skipped(rules()), (Texts{"in/log: binary, gzip-compressed file", "in/picture.txt: binary, PNG image",
                                     "in/table.txt: binary, Parquet file"}));
  InputRules bytes = rules();
  bytes.binary = true;
  EXPECT_EQ(taken(bytes).size(), 5u);
  EXPECT_EQ(lines_of_skipped(find_inputs(rules())),
            (Texts{cat("1 PNG image: ", folder_ / "in/picture.txt"),
                   cat("1 Parquet file (to extract the text: convert to JSON lines (.jsonl) with "
                       "tools/parquet_to_jsonl.py): ",
                       folder_ / "in/table.txt"),
                   cat("1 gzip-compressed file (to extract the text: gunzip, or name it .gz): ", folder_ / "in/log")}));
}

TEST_F(Inputs, NonTextInputIsRefusedWithItsKind) {
  InputRules r = rules();
  r.inputs = {folder_.write("a.txt", std::string_view("\x1f\x8b\x08\0", 4)),
              folder_.write("b", std::string_view("\x28\xb5\x2f\xfd\0", 5)),
              folder_.write("c.xz", std::string_view("\xfd"
                                                     "7zXZ\0",
                                                     6)),
              folder_.write("d.pdf", "%PDF-1.4\n")};
  const std::string text = refusal(ExitCode::data, r);
  expect_contains(text, "a.txt: is not text but a gzip-compressed file\n");
  expect_contains(text, "b: is not text but a zstd-compressed file\n");
  expect_contains(text, "c.xz: is not text but an xz-compressed file\n");
  expect_contains(text, "d.pdf: is not text but a PDF document\n");
  expect_contains(text, "to extract its text: gunzip");
}

TEST_F(Inputs, FolderOfOnlyBinariesIsReported) {
  for (int i = 0; i < 10; ++i) folder_.write(cat("in/", i, ".lz4"), "\x04\x22\x4d\x18");
  expect_contains(
      refusal(ExitCode::data, rules()),
      cat("in: contains no file to prepare; not taken:\n  10 lz4-compressed files (to extract the text: unlz4): ",
          folder_ / "in/0.lz4", ", ", folder_ / "in/1.lz4", ", ", folder_ / "in/2.lz4", ", ..."));
}

TEST_F(Inputs, AllInputsWithoutFilesAreNamed) {
  InputRules r = rules();
  r.inputs.clear();
  for (const char* name : {"a", "b", "c", "d"}) {
    std::filesystem::create_directory(folder_ / name);
    r.inputs.push_back(folder_ / name);
  }
  expect_contains(refusal(ExitCode::data, r),
                  cat(folder_ / "a", ", ", folder_ / "b", ", ", folder_ / "c",
                      " and 1 other input: contain no file to prepare; expected at least one text file"));
}

TEST_F(Inputs, DamagedCompressedFilesAreRefusedTogether) {
  folder_.write("in/a.gz", std::string_view("\x1f\x8b\x08\0", 4));
  folder_.write("in/b.zst", "words");
  const std::string text = refusal(ExitCode::data, rules());
  expect_contains(text, "2 problems of the input:");
  expect_contains(text, "a.gz: truncated gzip stream: the file ends at byte 4");
  expect_contains(text, "b.zst: damaged zstd stream after byte ");
}

TEST_F(Inputs, OutputIsNotRead) {
  folder_.write("in/a.txt", "text");
  folder_.write("in/out/tokenizer.json", "{}");
  InputRules r = rules();
  r.output = folder_ / "in/out/";
  EXPECT_EQ(taken(r), Texts{"in/a.txt"});
  EXPECT_EQ(skipped(r), Texts{"in/out/: in the output"});
  r.inputs.push_back(folder_ / "in/out/tokenizer.json");
  EXPECT_EQ(taken(r), Texts{"in/a.txt"});
}

TEST_F(Inputs, FilesOfAnotherPreparedFolderAreNotText) {
  for (const char* name : {"in/a.txt", "in/old/train.hxd", "in/old/tokenizer.json", "in/old/summary.json",
                           "in/old/b.json", "in/summary.json"})
    folder_.write(name, "{}");
  EXPECT_EQ(taken(rules()), (Texts{"in/a.txt", "in/old/b.json", "in/summary.json"}));
  EXPECT_EQ(skipped(rules()),
            (Texts{"in/old/summary.json: binary, prepared dataset", "in/old/tokenizer.json: binary, prepared dataset",
                   "in/old/train.hxd: binary, prepared dataset"}));
  InputRules bytes = rules();
  bytes.binary = true;
  EXPECT_EQ(taken(bytes).size(), 6u);
}

TEST_F(Inputs, UnreadableInputsAreReportedWithTheReason) {
  const auto reason = [&](ExitCode code, const std::string& input) {
    InputRules r = rules();
    r.inputs = {input};
    return refusal(code, r);
  };
  using enum ExitCode;
  link("loop", "loop");
  link("gone", "dangling");
  folder_.write("file", "text");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::string longest(300, 'x');
  EXPECT_EQ(reason(usage, folder_ / "loop"), folder_ / "loop" + ": Too many levels of symbolic links");
  EXPECT_EQ(reason(usage, folder_ / "dangling"), folder_ / "dangling" + ": is a link to gone, which does not exist");
  EXPECT_EQ(reason(usage, folder_ / longest), folder_ / longest + ": File name too long");
  EXPECT_EQ(reason(usage, folder_ / "file/a"),
            folder_ / "file/a" + ": no such file or folder: " + folder_ / "file" + " is not a directory");
  expect_contains(reason(usage, folder_ / "pipe"), "pipe: is not a regular file but a pipe; ");
  expect_contains(reason(usage, "/dev/null"), "/dev/null: is not a regular file but a character device");
  folder_.write("in/a.txt", "text");
  ASSERT_EQ(::mkfifo((folder_ / "in/pipe").c_str(), 0600), 0);
  EXPECT_EQ(skipped(rules()), Texts{"in/pipe: no regular file, a pipe"});
}

TEST_F(Inputs, UnlistableFolderIsNamed) {
  const tests::HeedFilePermissions heed;
  folder_.write("in/a.txt", "text");
  folder_.write("in/private/b.txt", "text");
  fs::permissions(folder_ / "in/private", fs::perms::none);
  expect_contains(refusal(ExitCode::data, rules()), "in/private: cannot be listed: Permission denied");
  InputRules without = rules();
  without.exclude = {"private"};
  EXPECT_EQ(taken(without), Texts{"in/a.txt"});
  fs::permissions(folder_ / "in/private", fs::perms::owner_all);
}

// Nests folders until their path exceeds the maximum length of a path.
TEST_F(Inputs, FoldersTooDeepToBeNamedAreRefused) {
  folder_.write("in/a.txt", "text");
  const std::string name(200, 'd');
  const fs::path back = fs::current_path();
  fs::current_path(folder_ / "in");
  for (int i = 0; i < 25; ++i) {
    ASSERT_EQ(::mkdir(name.c_str(), 0700), 0);
    ASSERT_EQ(::chdir(name.c_str()), 0);
  }
  fs::current_path(back);
  expect_contains(refusal(ExitCode::data, rules()), ": File name too long");
  InputRules without = rules();
  without.exclude = {"dddd*"};
  EXPECT_EQ(taken(without), Texts{"in/a.txt"});
}

}  // namespace
}  // namespace hexad::data
